"""Actions that only switch something: they ask for no more than a yes."""

from urllib.parse import quote

from dispatcher.console.page import Form, Page, Visit, form
from dispatcher.http.endpoints import Endpoint


def switch(
    path: str,
    asks: Endpoint,
    *,
    title: str,
    text: str,
    button: str,
    done: str,
    gone: bool = False,
    confirm: str = "",
) -> Page:
    """Return the action at a path such as /schedules/{name}/delete; `{name}` in the words is the thing's name.

    Afterwards the visitor is at the page of the thing, or where it is gone at the list.
    """

    @form(path, asks)
    async def act(visit: Visit) -> Form:
        name = visit.path["name"]
        section = f"/{path.split('/')[1]}"
        about = f"{section}/{quote(name, safe='')}"
        return Form(
            title=title.replace("{name}", name),
            text=text,
            button=button,
            reason=False,
            risk=gone,
            confirm=confirm,
            back=section if gone else about,
            cancel=about,
            done=done.replace("{name}", name),
        )

    return act
