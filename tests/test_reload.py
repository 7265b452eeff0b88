"""Properties of a reload: nothing outside the table of live paths ever changes in a running process."""

from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from dispatcher.config.fields import Keys, Leaf, Many, Node, Options, table_of
from dispatcher.config.rules import relations
from dispatcher.config.settings import (
    Channel,
    ChannelProvider,
    Config,
    Database,
    Faults,
    Function,
    Instance,
    Log,
    Retry,
    Webhook,
)
from dispatcher.reload import Changes, diff, is_live, merge

BASE = Config(
    instance=Instance(name="one"),
    functions={"bill": Function(url="https://f.example.org/call")},
    webhooks={"room": Webhook(url="https://h.example.org/room")},
    channels=Config().channels | {"sms": Channel(providers={"main": ChannelProvider(provider="capture")})},
)
# A busy machine is no failure.
unhurried = settings(deadline=None)

NOTHING = Changes((), ())


def _change(old: object) -> object:
    """Another value of the same type."""
    match old:
        case bool():
            return not old
        case int() | float():
            return old + 1
        case _:
            return f"{old}x"


def _paths(value: object, at: Keys = ()) -> Iterator[Keys]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _paths(inner, (*at, key))
    else:
        yield at


def _with(config: Config, paths: set[Keys]) -> Config:
    """The same configuration with the values at these paths changed; bounds are not what is tested here."""
    plain = msgspec.to_builtins(config)
    for *tables, key in paths:
        table = plain
        for name in tables:
            table = table[name]
        table[key] = _change(table[key])
    return _unbounded(plain)


def _unbounded(plain: dict[str, dict[str, object]]) -> Config:
    channels = {name: _channel(table) for name, table in plain.pop("channels").items()}
    functions = {name: Function(**table) for name, table in plain.pop("functions").items()}  # type: ignore[arg-type]  # as it was
    webhooks = {name: Webhook(**table) for name, table in plain.pop("webhooks").items()}  # type: ignore[arg-type]  # as it was
    sections = {key: structs.replace(getattr(BASE, key), **table) for key, table in plain.items()}
    return structs.replace(BASE, channels=channels, functions=functions, webhooks=webhooks, **sections)


def _channel(table: object) -> Channel:
    assert isinstance(table, dict)
    faults = Faults(**table.pop("faults"))
    providers = {name: ChannelProvider(**one) for name, one in table.pop("providers").items()}
    return Channel(faults=faults, providers=providers, **table)


PATHS = sorted(_paths(msgspec.to_builtins(BASE)))
CONFIGS = st.builds(
    lambda paths, gone, come: _renamed(_with(BASE, paths), gone, come),
    st.sets(st.sampled_from(PATHS)),
    st.sets(st.sampled_from(sorted(BASE.channels))),
    st.sets(st.sampled_from(["pager", "fax"])),
)


def _renamed(config: Config, gone: set[str], come: set[str]) -> Config:
    kept = {name: channel for name, channel in config.channels.items() if name not in gone}
    return structs.replace(config, channels=kept | dict.fromkeys(come, Channel()))


@unhurried
@given(CONFIGS)
def test_a_configuration_does_not_differ_from_itself(config: Config) -> None:
    assert diff(config, config) == NOTHING
    assert merge(config, config) == config


@unhurried
@given(CONFIGS, CONFIGS)
def test_a_merge_applies_what_the_diff_says_and_nothing_else(old: Config, new: Config) -> None:
    merged = merge(old, new)
    assert diff(old, merged) == Changes(applied=diff(old, new).applied, needs_restart=())


@unhurried
@given(CONFIGS, CONFIGS)
def test_a_merge_returns_the_options_that_need_a_restart(old: Config, new: Config) -> None:
    assert diff(merge(old, new), new) == Changes(applied=(), needs_restart=diff(old, new).needs_restart)


@pytest.mark.parametrize("path", PATHS, ids=".".join)
def test_each_change_is_named_once_and_is_either_live_or_not(path: Keys) -> None:
    changes = diff(BASE, _with(BASE, {path}))
    named = (".".join(path),)
    assert changes == (Changes(named, ()) if is_live(path) else Changes((), named))


def test_which_sections_are_live() -> None:
    live = {path[0] for path in PATHS if is_live(path)}
    fixed = {path[0] for path in PATHS if not is_live(path)}
    assert live == {
        "log",
        "limits",
        "retry",
        "claim",
        "flush",
        "walk",
        "campaigns",
        "janitor",
        "unsubscribe",
        "receipts",
        "alerts",
        "staging",
        "api",
        "channels",
        "functions",
        "webhooks",
    }
    assert fixed == {"database", "instance", "http", "log", "supervisor", "tracing", "api", "cell"}
    assert [path for path in PATHS if path[0] == "log" and is_live(path)] == [("log", "level")]
    assert {path[1] for path in PATHS if path[0] == "api" and not is_live(path)} == {"connections", "allow_origins"}


@pytest.mark.parametrize("path", ["unheard_of", "unheard_of.key", "log", "log.level.x", "channels", "channels.sms"])
def test_an_unlisted_path_needs_a_restart(path: str) -> None:
    assert not is_live(tuple(path.split(".")))


def test_a_channel_that_came_or_went_waits_for_a_restart() -> None:
    new = _renamed(BASE, {"sms"}, {"pager"})
    assert diff(BASE, new) == Changes((), ("channels.pager", "channels.sms"))
    assert merge(BASE, new).channels == BASE.channels


def test_functions_and_webhooks_come_and_go_live() -> None:
    new = structs.replace(BASE, functions={"ship": Function(url="https://s.example.org/")}, webhooks={})
    assert diff(BASE, new) == Changes(("functions.bill", "functions.ship", "webhooks.room"), ())
    assert merge(BASE, new) == new


def test_a_provider_changes_live_beside_a_channel_that_does_not() -> None:
    new = structs.replace(BASE, channels={"email": Channel(provider="blackhole"), "pager": Channel()})
    merged = merge(BASE, new)
    assert diff(BASE, new).applied == ("channels.email.provider",)
    assert merged.channels["email"].provider == "blackhole"
    assert merged.channels.keys() == BASE.channels.keys()


def test_options_come_go_and_change_live() -> None:
    old = structs.replace(BASE, channels=BASE.channels | {"sms": Channel(options={"host": "a", "port": 1})})
    new = structs.replace(BASE, channels=BASE.channels | {"sms": Channel(options={"host": "b", "keyed": True})})
    named = ("channels.sms.options.host", "channels.sms.options.keyed", "channels.sms.options.port")
    assert diff(old, new) == Changes(named, ())
    assert merge(old, new) == new


def test_a_secret_is_named_by_its_path_only() -> None:
    new = structs.replace(BASE, database=Database(url="postgresql://u:hunter2@h/d"))
    assert diff(BASE, new) == Changes((), ("database.url",))


def test_a_merge_keeps_and_takes_within_one_section() -> None:
    new = structs.replace(BASE, log=Log(level="debug", format="console"), retry=Retry(base_seconds=1.0))
    merged = merge(BASE, new)
    assert merged.log == Log(level="debug", format="json")
    assert merged.retry == new.retry


def test_no_relation_reads_both_live_and_fixed_keys() -> None:
    """Or a merge of two sound configurations could be unsound."""
    called = structs.replace(BASE, channels={"http": Channel(provider="functions")})
    for relation in relations(called):
        assert len({is_live(keys) for keys in relation.reads}) == 1, relation.at


def test_every_leaf_of_the_schema_is_among_the_tested_paths() -> None:
    assert {_star(path) for path in PATHS} == set(_leaves(table_of(Config)))


def _star(path: Keys) -> Keys:
    if "providers" in path:
        path = (*path[:3], "*", *path[4:])
    return (path[0], "*", *path[2:]) if path[0] in ("channels", "functions", "webhooks") else path


def _leaves(node: Node, at: Keys = ()) -> Iterator[Keys]:
    match node:
        case Leaf():
            yield at
        case Many(value=table):
            yield from _leaves(table, (*at, "*"))
        case Options():
            # Keys of the provider's; there are none by default.
            pass
        case _:
            for key, child in node.children.items():
                yield from _leaves(child, (*at, key))
