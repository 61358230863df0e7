"use strict";
(() => {
  // Tables that sort by a heading and show the rows whose name holds a text; without this script they are plain tables.
  const order = new Intl.Collator(undefined, { numeric: true });
  for (const box of document.querySelectorAll("[data-sortable]")) {
    const body = box.querySelector("tbody");
    const rows = [...body.rows];
    const heads = [...box.querySelectorAll("thead th")];
    const told = box.querySelector("[data-told]");

    const sort = (k, down) => {
      const value = (row) => k === 0 ? row.cells[0].textContent : row.cells[k].dataset.value;
      const compare = k === 0 ? order.compare : (a, b) => Number(a) - Number(b);
      rows.sort((one, other) => {
        const [a, b] = [value(one), value(other)];
        if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
        return down ? compare(b, a) : compare(a, b);
      });
      body.append(...rows);
      heads.forEach((head, i) => i === k ? head.setAttribute("aria-sort", down ? "descending" : "ascending") : head.removeAttribute("aria-sort"));
    };
    heads.forEach((head, k) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = head.textContent;
      button.addEventListener("click", () => {
        const now = head.getAttribute("aria-sort");
        sort(k, (now ? (now === "ascending" ? "descending" : "ascending") : head.dataset.first) === "descending");
      });
      head.replaceChildren(button);
    });

    const field = box.querySelector("input");
    field.addEventListener("input", () => {
      const wanted = field.value.trim().toLowerCase();
      let left = 0;
      for (const row of rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(wanted);
        left += !row.hidden;
      }
      told.textContent = wanted ? `${left} of ${rows.length} keys` : "";
    });
    field.parentElement.hidden = false;
  }
})();
