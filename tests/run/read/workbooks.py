"""Spreadsheets for tests, written byte by byte: honest ones and forged ones."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
OFFICE = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"


def write_parts(path: Path, parts: dict[str, str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as book:
        for name, text in parts.items():
            book.writestr(name, text)
    return path


def write_xlsx(path: Path, rows: str, shared: str | None = None, head: str = "") -> Path:
    """Write a workbook of one sheet from the XML of its rows, its shared texts and what stands before the rows."""
    strings = f'<Relationship Id="r2" Type="{OFFICE}/sharedStrings" Target="sharedStrings.xml"/>' if shared else ""
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types"><Default Extension="xml" '
        'ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet.main+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{MAIN}" xmlns:r="{OFFICE}"><sheets><sheet name="s" sheetId="1" '
        'r:id="r1"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships"><Relationship Id="r1" '
        f'Type="{OFFICE}/worksheet" Target="worksheets/sheet1.xml"/>{strings}</Relationships>',
        "xl/worksheets/sheet1.xml": f'<worksheet xmlns="{MAIN}">{head}<sheetData>{rows}</sheetData></worksheet>',
    }
    if shared:
        parts["xl/sharedStrings.xml"] = f'<sst xmlns="{MAIN}">{shared}</sst>'
    return write_parts(path, parts)


def workbook(path: Path, rows: list[list[object]]) -> Path:
    """Write a sheet of texts and numbers as Excel would."""
    lines = []
    for r, row in enumerate(rows, start=1):
        cells = (
            f'<c t="inlineStr"><is><t>{cell}</t></is></c>' if isinstance(cell, str) else f"<c><v>{cell!r}</v></c>"
            for cell in row
        )
        lines.append(f'<row r="{r}">{"".join(cells)}</row>')
    return write_xlsx(path, "".join(lines))


def write_ods(path: Path, rows: str) -> Path:
    """Write an OpenDocument sheet from the XML of its rows."""
    names = " ".join(
        f'xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"' for name in ("office", "table", "text")
    )
    content = (
        f'<office:document-content {names}><office:body><office:spreadsheet><table:table table:name="s">{rows}'
        "</table:table></office:spreadsheet></office:body></office:document-content>"
    )
    manifest = '<manifest:manifest xmlns:manifest="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0"/>'
    mime = "application/vnd.oasis.opendocument.spreadsheet"
    return write_parts(path, {"mimetype": mime, "content.xml": content, "META-INF/manifest.xml": manifest})


def record(kind: int, data: bytes) -> bytes:
    return struct.pack("<HH", kind, len(data)) + data


def number(row: int, column: int, value: float) -> bytes:
    """Return a cell of an .xls sheet that holds a number."""
    return record(0x0203, struct.pack("<HHHd", row, column, 0, value))


def shared_text(row: int, column: int, text: int) -> bytes:
    """Return a cell of an .xls sheet that holds a shared text."""
    return record(0x00FD, struct.pack("<HHHI", row, column, 0, text))


def write_xls(path: Path, cells: bytes, texts: list[str], stated: int | None = None) -> Path:
    """Write an .xls workbook of one sheet: a compound file with a FAT, a directory and a stream of records."""
    begin, end = record(0x0809, struct.pack("<HHHHII", 0x0600, 5, 0, 0, 0, 0)), record(0x000A, b"")
    written = b"".join(struct.pack("<HB", len(text), 0) + text.encode("latin-1") for text in texts)
    count = len(texts) if stated is None else stated
    strings = record(0x00FC, struct.pack("<II", count, count) + written)
    bound = record(0x0085, struct.pack("<IBBBB", 0, 0, 0, 1, 0) + b"s")
    start = len(begin + bound + strings + end)
    bound = record(0x0085, struct.pack("<IBBBB", start, 0, 0, 1, 0) + b"s")
    stream = begin + bound + strings + end + begin + cells + end
    stream += bytes(max(4096 - len(stream), -len(stream) % 512))
    sectors = len(stream) // 512
    fat_count = -(-(sectors + 2) // 126)
    chain = [*range(1, sectors), 0xFFFFFFFE, 0xFFFFFFFE, *[0xFFFFFFFD] * fat_count]  # stream, directory, FAT
    fat = struct.pack(f"<{len(chain)}I", *chain)
    fat += b"\xff" * (fat_count * 512 - len(fat))
    places = [sectors + 1 + k for k in range(fat_count)] + [0xFFFFFFFF] * (109 - fat_count)
    head = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(16) + struct.pack("<HHHHH6x", 0x3E, 3, 0xFFFE, 9, 6)
    head += struct.pack("<IIIIIIIII", 0, fat_count, sectors, 0, 4096, 0xFFFFFFFE, 0, 0xFFFFFFFE, 0)

    def entry(title: str, kind: int, child: int, first: int, size: int) -> bytes:
        text = title.encode("utf-16-le")
        links = struct.pack("<III", 0xFFFFFFFF, 0xFFFFFFFF, child)
        name = text.ljust(64, b"\0") + struct.pack("<HBB", len(text) + 2, kind, 1)
        return name + links + bytes(36) + struct.pack("<IQ", first, size)

    root, book = entry("Root Entry", 5, 1, 0xFFFFFFFE, 0), entry("Workbook", 2, 0xFFFFFFFF, 0, len(stream))
    path.write_bytes(head + struct.pack("<109I", *places) + stream + (root + book).ljust(512, b"\0") + fat)
    return path
