"""Two reports side by side. Ratios are compared first: both sides of one ran on the same machine."""

from bench.reporting.report import Report

# Ratios of one run can be trusted to so much; what differs more is marked.
TRUSTED = 0.05


def compare(first: Report, second: Report) -> str:
    """A Markdown table of the lines of either, and what differs between the machines."""
    lines = [f"A: {first.at}, {first.machine.commit}. B: {second.at}, {second.machine.commit}.", ""]
    pairs = zip(first.machine.lines, second.machine.lines, strict=True)
    different = [
        f"- {name}: {one} | {other}"
        for (name, one), (_, other) in pairs
        if one != other and name not in ("commit", "load when it began")
    ]
    if different:
        lines += ["The machines differ, so only ratios can be compared:", "", *different, ""]
    lines += ["| line | A | B | B / A | ratio of A | ratio of B | |", "|---|---|---|---|---|---|---|"]
    before = {one.case: one for one in first.measures}
    after = {one.case: one for one in second.measures}
    for name in dict.fromkeys((*before, *after)):
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            lines.append(f"| `{name}` | | | | | | only in {'A' if other is None else 'B'} |")
            continue
        values = f"{other.value / one.value:.2f}" if one.value else ""
        changed = abs(other.ratio - one.ratio) > TRUSTED * abs(one.ratio)
        lines.append(
            f"| `{name}` | {one.value:,.2f} {one.unit} | {other.value:,.2f} | {values} | {one.ratio:.2f} | "
            f"{other.ratio:.2f} | {'changed' if changed else ''} |"
        )
    return "\n".join(lines) + "\n"
