"""Make the rows that people and programs see from the sums. Pure: no I/O, no clock, no agent names."""

from __future__ import annotations

from agentctl.model import Tokens, Value

LEAST_SHOWN = 0.0001  # dollars

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from agentctl.usage.sums import Known, Sum

BY = ("day", "agent", "model", "project", "group", "session")
MILLION = 1_000_000


class Price(Value):
    """US dollars per million tokens; None: not given."""

    pattern: str
    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None


class Row(Value):
    """What was spent under one heading."""

    key: str | None
    tokens: Tokens
    total: int  # each token once: agents differ in what they count as input or output
    cost_usd: float | None  # as far as known
    cost_estimated: bool  # some of it is from prices, not from the agent's own record
    cost_complete: bool  # the cost of every token is known
    sessions: int
    session: Known | None = None  # only with --by session


def rows_of(
    sums: Iterable[Sum],
    key_of: Callable[[Sum], str | None],
    prices: list[Price],
    *,
    at_least_one: bool = False,
) -> list[Row]:
    """Return one row for each key, sorted by key."""
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
    """Return the cost, and whether it is an estimate. A cost on record is not estimated; if the record of another
    session has it (that of a parent has the cost of its sub-agents), there is none here."""
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
    """Return the first price in the configuration whose pattern (* matches anything) matches the model."""
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
    """Sort the rows: days by date, all others by tokens, with sub-agents behind their parent."""
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
    """Return a number for people: 1234567 is 1.2M; an unknown one is a dash."""
    if count is None:
        return "-"
    for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if count >= size:
            whole = count / size
            return f"{whole:.1f}{unit}" if whole < 99.95 else f"{whole:.0f}{unit}"
    return str(count)


def money(row: Row) -> str:
    """Return the cost for people: ~ means that some of it is an estimate, + that some of it is unknown."""
    if row.cost_usd is None:
        return "-"
    return f"{'~' if row.cost_estimated else ''}{usd(row.cost_usd)}{'' if row.cost_complete else '+'}"


def usd(cost: float) -> str:
    """Return an amount of dollars for people. What costs little does not cost nothing."""
    if 0 < cost < LEAST_SHOWN:
        return f"<${LEAST_SHOWN}"
    return f"${cost:,.{2 if cost >= 1 or cost == 0 else 4}f}"


def bar(value: int, most: int, width: int) -> str:
    """Return a bar of at most `width` characters; a value above zero has at least one."""
    if value <= 0 or most <= 0 or width <= 0:
        return ""
    return "#" * max(1, round(width * value / most))
