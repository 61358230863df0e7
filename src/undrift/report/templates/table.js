"use strict";
(() => {
  // Make tables sortable by their headings and searchable by name; without this script they are plain tables.
  const collator = new Intl.Collator(undefined, { numeric: true });
  for (const box of document.querySelectorAll("[data-sortable]")) {
    const body = box.querySelector("tbody");
    const rows = [...body.rows];
    const heads = [...box.querySelectorAll("thead th")];
    const status = box.querySelector("[data-matches]");

    const sort = (k, down) => {
      const value = (row) => k === 0 ? row.cells[0].textContent : row.cells[k].dataset.value;
      const compare = k === 0 ? collator.compare : (a, b) => Number(a) - Number(b);
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
      const text = field.value.trim().toLowerCase();
      let matches = 0;
      for (const row of rows) {
        row.hidden = !row.cells[0].textContent.toLowerCase().includes(text);
        matches += !row.hidden;
      }
      status.textContent = text ? `${matches} of ${rows.length} keys` : "";
    });
    field.parentElement.hidden = false;
  }
})();
