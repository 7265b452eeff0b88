"""A plan as Mermaid text, for documentation that is kept in git."""

from dispatcher.plans.drawing.labels import label, short
from dispatcher.plans.plan import Branch, Call, Day, Delay, Digest, Join, Node, Plan, Send, Wait

_SHAPES: dict[type[Node], tuple[str, str]] = {
    Send: ("[", "]"),
    Call: ("[[", "]]"),
    Delay: ("([", "])"),
    Day: ("([", "])"),
    Branch: ("{", "}"),
    Join: ("((", "))"),
    Wait: ("[/", "/]"),
    Digest: ("[(", ")]"),
}
# What ends a text in quotes, or is taken for markup inside of one.
_ESCAPES = str.maketrans({sign: f"#{ord(sign)};" for sign in '"#<>&`\\'})


def mermaid(plan: Plan) -> str:
    """The plan as a flow chart."""
    names = {name: f"n{number}" for number, name in enumerate(plan.nodes, start=1)}
    lines = ["flowchart TD"]
    for name, node in plan.nodes.items():
        begin, end = _SHAPES[type(node)]
        lines.append(f'    {names[name]}{begin}"{_text(name)}<br/>{_text(label(node))}"{end}')
    for name, edges in plan.edges.items():
        is_choice = isinstance(plan.nodes[name], Branch)
        for edge in edges:
            words = edge.condition or ("otherwise" if is_choice else "")
            arrow = f'-->|"{_text(short(words))}"|' if words else "-->"
            lines.append(f"    {names[name]} {arrow} {names[edge.to]}")
    return "\n".join([*lines, ""])


def _text(text: str) -> str:
    return text.translate(_ESCAPES)
