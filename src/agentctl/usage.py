"""Pure: from what was spent to the rows that people and programs see. No I/O, no clock, no agent names."""

from __future__ import annotations

from agentctl.model import Tokens, Value

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentctl.usage_sums import Known, Sum

BY = ("day", "agent", "model", "project", "group", "session")
MILLION = 1_000_000


class Price(Value):
    """US dollars for a million tokens; None: not said."""

    pattern: str
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class Row(Value):
    """What was spent under one heading."""

    key: str | None
    tokens: Tokens
    total: int  # each token once: agents differ in what they count among the input or the output
    cost_usd: float | None  # as far as it is known
    cost_estimated: bool  # some of it is from prices, not from the agent's own record
    cost_complete: bool  # of nothing that was spent the cost is missing
    sessions: int
    session: Known | None = None  # by session: which


def rows_of(
    sums: Iterable[Sum],
    key_of: Callable[[Sum], str | None],
    prices: list[Price],
    *,
    at_least_one: bool = False,
) -> list[Row]:
    """One for each key, in the order of the keys."""
    found: dict[str | None, list[Sum]] = {None: []} if at_least_one else {}
    for one in sums:
        found.setdefault(key_of(one), []).append(one)
    ordered = sorted(found, key=lambda key: (key is None, key or ""))
    return [row_of(key, found[key], prices) for key in ordered]


def row_of(key: str | None, sums: list[Sum], prices: list[Price]) -> Row:
    counts = [added(one.counts[index] for one in sums) for index in range(7)]
    costs = [cost_of(one, prices) for one in sums]
    known = [cost for cost, _ in costs if cost is not None]
    return Row(
        key,
        Tokens(*counts[:5]),
        sum(count or 0 for count in (counts[5], counts[6], counts[2], counts[3])),
        round(sum(known), 10) if known else None,
        any(estimated for _, estimated in costs),
        all(cost is not None or one.settled for one, (cost, _) in zip(sums, costs, strict=True)),
        len(set(",".join([one.tops for one in sums]).split(","))) if sums else 0,
    )


def added(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def cost_of(one: Sum, prices: list[Price]) -> tuple[float | None, bool]:
    """(what it cost, whether that is an estimate). What is on record is not priced again; where the record stands with
    another one (a sub-agent's with its parent), there is none here."""
    price = None if one.settled else price_of(one.model, prices)
    if price is None:
        return one.cost, False
    _, _, read, written, _, fresh, said = (count or 0 for count in one.counts)
    cost = 0.0
    for count, dollars in (
        (fresh, price.input),
        (said, price.output),
        (read, price.cache_read),
        (written, price.cache_write),
    ):
        if count and dollars is None:
            return None, False
        cost += count * (dollars or 0.0) / MILLION
    return cost, True


def price_of(model: str | None, prices: list[Price]) -> Price | None:
    """The first whose pattern (* is anything) fits, as they stand in the configuration."""
    return next((price for price in prices if model is not None and fits(price.pattern, model)), None)


def fits(pattern: str, text: str) -> bool:
    first, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    if not text.startswith(first):
        return False
    place = len(first)
    for part in rest[:-1]:
        found = text.find(part, place)
        if found < 0:
            return False
        place = found + len(part)
    return len(text) - place >= len(rest[-1]) and text.endswith(rest[-1])


def in_order(rows: list[Row], by: str) -> list[Row]:
    """Days as they came; else what spent most first, and sub-agents behind their parent."""
    if by == "day":
        return rows
    rows = sorted(rows, key=lambda row: (row.key is None, -row.total))
    children: dict[str, list[Row]] = {}
    shown = {row.key for row in rows}
    for row in rows:
        if row.session is not None and row.session.top != row.key and row.session.top in shown:
            children.setdefault(row.session.top, []).append(row)
    below = {row.key for some in children.values() for row in some}
    return [one for row in rows if row.key not in below for one in (row, *children.get(row.key or "", ()))]


def human(count: int | None) -> str:
    """1234567 is 1.2M; what is not known is a dash."""
    if count is None:
        return "-"
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            whole = count / size
            return f"{whole:.1f}{unit}" if whole < 99.95 else f"{whole:.0f}{unit}"
    return str(count)


def money(row: Row) -> str:
    """~ where some of it is an estimate, + where there is more of which nothing is known."""
    if row.cost_usd is None:
        return "-"
    digits = 2 if row.cost_usd >= 1 or row.cost_usd == 0 else 4
    return f"{'~' if row.cost_estimated else ''}${row.cost_usd:,.{digits}f}{'' if row.cost_complete else '+'}"


def bar(value: int, most: int, width: int) -> str:
    """Something is never nothing."""
    if value <= 0 or most <= 0 or width <= 0:
        return ""
    return "#" * max(1, round(width * value / most))
