"""The columns of a terminal: how many a text takes, and texts that are cut and filled to a number of them. Pure.

A character takes one column, two (East Asian and most emoji) or none (combining marks). Most text is ASCII, where the
columns are the characters: only other text costs more. Where terminals differ, the larger number counts, so that a
line never becomes longer than the terminal.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence

ELLIPSIS = "…"
GAP = "  "  # between two columns of a table
NARROWEST = 4  # columns of a cell that is cut
AS_EMOJI = "\ufe0f"  # behind a character that has a narrow form: draw the wide one
JAMO = ("\u1160", "\u11ff")  # vowels and endings, which join the character before


def columns_of(text: str) -> int:
    """Return how many columns of a terminal a text takes."""
    return len(text) if is_simple(text) else sum(size for _, size in clusters(text))


def is_simple(text: str) -> bool:
    """Return whether each character of a text takes one column: it is ASCII, and perhaps was cut before."""
    return text.isascii() or text.replace(ELLIPSIS, "").isascii()


def clusters(text: str) -> Iterator[tuple[str, int]]:
    """Yield what is drawn in one place, a character and the marks on it, and how many columns that takes."""
    cluster, size = "", 0
    for char in text:
        own = columns_of_character(char)
        if own == 0 and cluster:
            cluster += char
            size = 2 if char == AS_EMOJI else size
            continue
        if cluster:
            yield cluster, size
        cluster, size = char, own
    if cluster:
        yield cluster, size


def columns_of_character(char: str) -> int:
    if char.isascii():
        return 1
    from unicodedata import category, east_asian_width

    if category(char) in ("Mn", "Me", "Cf") or JAMO[0] <= char <= JAMO[1]:
        return 0
    return 2 if east_asian_width(char) in ("W", "F") else 1


def shorten(text: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Return the beginning of a text that fits, with an ellipsis if that is not all of it."""
    if columns_of(text) <= width:
        return text
    room = max(0, width - len(ellipsis))
    kept = text[:room] if is_simple(text) else beginning(clusters(text), room)
    return kept + ellipsis[: max(width, 0)]


def shorten_path(path: str, width: int, ellipsis: str = ELLIPSIS) -> str:
    """Return the end of a path that fits, which tells more than its beginning."""
    if columns_of(path) <= width:
        return path
    room = max(0, width - len(ellipsis))
    if is_simple(path):
        return ellipsis[: max(width, 0)] + path[len(path) - room :]
    kept: list[str] = []
    for cluster, size in reversed(list(clusters(path))):
        if size > room:
            break
        kept.append(cluster)
        room -= size
    return ellipsis[: max(width, 0)] + "".join(reversed(kept))


def beginning(text: Iterable[tuple[str, int]], room: int) -> str:
    kept = []
    for cluster, size in text:
        if size > room:
            break
        kept.append(cluster)
        room -= size
    return "".join(kept)


def filled(cells: Sequence[str], width: int, *, right: bool) -> list[str]:
    """Return cells with blanks up to this width. (A whole column at once: there may be thousands of cells.)"""
    if is_simple("".join(cells)):
        return [cell.rjust(width) if right else cell.ljust(width) for cell in cells]
    blanks = [" " * (width - columns_of(cell)) for cell in cells]
    return [blank + cell if right else cell + blank for cell, blank in zip(cells, blanks, strict=True)]


def widest(cells: Sequence[str]) -> int:
    return max(map(len if is_simple("".join(cells)) else columns_of, cells), default=0)


def fitted(
    widths: Mapping[str, int], room: int, flexible: Mapping[str, int] = {}, optional: Sequence[str] = ()
) -> dict[str, int]:
    """Return the columns of a table that fit into a room, with their widths. Those in `flexible` may be cut to the
    width that is given there, and those in `optional` are left out, the first one first, until the others fit. If they
    never do, the flexible ones become narrower still. The room that is left goes to the flexible ones, in proportion to
    the widths that are given for them."""
    kept, weights = dict(widths), flexible
    for name in optional:
        if least_of(kept, flexible) <= room:
            break
        kept.pop(name, None)
    if least_of(kept, flexible) > room:
        flexible = dict.fromkeys(flexible, NARROWEST)
    left = room - least_of(kept, dict.fromkeys(flexible, 0))
    names = [name for name in kept if name in flexible]
    for number, name in enumerate(names):
        later = sum(min(kept[other], flexible[other]) for other in names[number + 1 :])
        weight = left * weights[name] // sum(weights[other] for other in names[number:])
        share = max(flexible[name], min(weight, left - later))
        kept[name] = min(kept[name], share)
        left -= kept[name]
    return kept


def least_of(widths: Mapping[str, int], flexible: Mapping[str, int]) -> int:
    """Return the width of a table whose flexible columns are as narrow as they may be."""
    least = sum(min(width, flexible.get(name, width)) for name, width in widths.items())
    return least + len(GAP) * max(0, len(widths) - 1)


def padded(
    columns: Mapping[str, Sequence[str]],
    widths: Mapping[str, int],
    right: Container[str],
    paths: Container[str],
    ellipsis: str,
    brief: Mapping[str, Callable[[str], str]] = {},
) -> dict[str, list[str]]:
    """Return the columns of a table, each with its name above it, cut and filled to these widths. Of what is in `paths`
    the end is kept. `brief`: by column, what says the same as a cell that does not fit in fewer words."""
    found = {}
    for name, width in widths.items():
        cells = columns[name]
        if widest(cells) > width:
            cut = shorten_path if name in paths else shorten
            if name in brief:
                cells = [brief[name](cell) if columns_of(cell) > width else cell for cell in cells]
            cells = [cut(cell, width, ellipsis) for cell in cells]
        found[name] = filled([shorten(name, width, ellipsis), *cells], width, right=name in right)
    return found
