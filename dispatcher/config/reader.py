"""The reader: walks the shape of the configuration and the input at once, and collects values and faults."""

from collections.abc import Mapping
from typing import TypeVar

import msgspec
from msgspec import UNSET, Struct, structs

from dispatcher.base.errors import Fault, did_you_mean, quoted
from dispatcher.config.fields import Keys, Leaf, Many, Options, Table, dotted, expected, fits, got, table_of
from dispatcher.config.rules import relations
from dispatcher.config.settings import CHANNELS, DEFAULT_PROVIDERS, Channel, ChannelProvider, Config
from dispatcher.config.sources import Given

HasProvider = TypeVar("HasProvider", Channel, ChannelProvider)

# Which providers there are, and the struct of each one's options.
Providers = Mapping[str, type[Struct]]
# Tables that exist without being named.
BUILT_IN: Mapping[Keys, tuple[str, ...]] = {("channels",): CHANNELS}
# Their values that differ from the defaults.
IMPLICIT: Mapping[Keys, Mapping[str, object]] = {
    ("channels", name): {"provider": provider} for name, provider in DEFAULT_PROVIDERS.items()
}

# What a channel says of its only provider.
ONE_PROVIDER = ("provider", "options")


class Reader:
    """One pass over the input. A faulty value is replaced by its default while the others are read."""

    def __init__(self, overrides: Mapping[Keys, Given]) -> None:
        self.faults: list[Fault] = []
        self._overrides = overrides
        self._faulty: set[Keys] = set()
        self._options: dict[Keys, object] = {}

    def read(self, raw: Mapping[str, object], providers: Providers) -> Config:
        """The configuration, to be used only if `faults` is empty afterwards."""
        config = msgspec.convert(self._table(table_of(Config), raw, ()), Config)
        self._check_forms(config, raw)
        self._check_providers(config, providers)
        config = self._with_options(config, providers)
        self._check_relations(config)
        return config

    def _table(self, table: Table, raw: object, at: Keys) -> dict[str, object]:
        given = self._dict(raw, at)
        self._unknown(table, given, at)
        values: dict[str, object] = {}
        for key, node in table.children.items():
            below = (*at, key)
            match node:
                case Table():
                    values[key] = self._table(node, given.get(key, {}), below)
                case Many():
                    values[key] = self._many(node, given.get(key, {}), below)
                case Options():
                    # Their shape depends on the provider, which is known later.
                    self._options[below] = given.get(key, {})
                case Leaf():
                    value = self._leaf(node, given.get(key, UNSET), below)
                    if value is not UNSET:
                        values[key] = value
        return values

    def _dict(self, raw: object, at: Keys) -> Mapping[str, object]:
        if isinstance(raw, dict):
            return raw
        # The value may be a misplaced secret: only its kind is shown.
        self._fault(at, f"expected a table, got {got(raw) if isinstance(raw, list) else 'a single value'}")
        return {}

    def _unknown(self, table: Table, given: Mapping[str, object], at: Keys) -> None:
        for key in given:
            if key not in table.children:
                self._fault((*at, key), f"unknown key{did_you_mean(key, table.children)}")

    def _many(self, many: Many, raw: object, at: Keys) -> dict[str, object]:
        """Read the tables that are built in, and those that the file or a variable names."""
        given = self._dict(raw, at)
        self._resolve_hyphens(given, at)
        overridden = [keys[len(at)] for keys in self._overrides if keys[: len(at)] == at]
        built_in = BUILT_IN.get(at, ())
        names = dict.fromkeys((*built_in, *given, *overridden))
        if len(names) > many.length_max:
            with_them = " with the built-in ones" if built_in else ""
            self._fault(at, f"at most {many.length_max} are possible, got {len(names)}{with_them}")
            return {}
        for name in names:
            if not fits(many.key, name):
                self._fault((*at, name), f"expected {expected(many.key)}, got {quoted(name)}")
        good = [name for name in names if fits(many.key, name)]
        tables = {name: (given.get(name, {}), (*at, name)) for name in good}
        return {
            name: self._table(many.value, _with_implicit(table, below), below)
            for name, (table, below) in tables.items()
        }

    def _resolve_hyphens(self, given: Mapping[str, object], at: Keys) -> None:
        """A variable's name has no hyphens: where the file has create-invoice, create_invoice means that."""
        depth = len(at)
        meant = {name.replace("-", "_"): name for name in given} | {name: name for name in given}
        self._overrides = {
            (*at, meant.get(keys[depth], keys[depth]), *keys[depth + 1 :]) if keys[:depth] == at else keys: override
            for keys, override in self._overrides.items()
        }

    def _with_options(self, config: Config, providers: Providers) -> Config:
        """The configuration with each channel's options, read by the shape that its provider declares."""
        channels = {name: self._channel(channel, name, providers) for name, channel in config.channels.items()}
        return structs.replace(config, channels=channels)

    def _channel(self, channel: Channel, name: str, providers: Providers) -> Channel:
        at = ("channels", name)
        if not channel.providers:
            return self._sound(channel, at, providers)
        several = {key: self._sound(one, (*at, "providers", key), providers) for key, one in channel.providers.items()}
        return structs.replace(channel, providers=several)

    def _sound(self, one: HasProvider, at: Keys, providers: Providers) -> HasProvider:
        """Return a channel, or one of its providers, with its options, unless its provider is faulty."""
        if one.provider not in providers or (*at, "provider") in self._faulty:
            return one
        return structs.replace(one, options=self._provider(providers[one.provider], at))

    def _provider(self, cls: type[Struct], table_at: Keys) -> dict[str, object]:
        """Return the given options of a provider's table; defaults are the provider's."""
        at = (*table_at, "options")
        table = table_of(cls)
        values = self._table(table, self._options[at], at)
        for keys in self._overrides:
            if keys[:-1] == at and keys[-1] not in table.children and keys not in self._faulty:
                hint = did_you_mean(keys[-1], table.children)
                self._fault(keys, f"unknown key {quoted(keys[-1])}{hint}{self._origin(keys)}")
        for field in structs.fields(cls):
            key = field.encode_name
            if field.required and key not in values and (*at, key) not in self._faulty:
                self._fault((*at, key), "is missing: the provider has no default for it")
        if not any(keys[: len(at)] == at for keys in self._faulty):
            # A provider's own checks; its messages have no values.
            try:
                msgspec.convert(values, cls)
            except msgspec.ValidationError as fault:
                self._fault(at, str(fault))
        return values

    def _leaf(self, leaf: Leaf, raw: object, at: Keys) -> object:
        """The value in its type; UNSET where nothing was given, or nothing that fits."""
        override = self._overrides.get(at)
        value = override.text if override else raw
        if value is UNSET:
            return UNSET
        try:
            # A variable is always text; a file says what type it means, and is held to it.
            converted: object = msgspec.convert(value, leaf.annotation, strict=override is None)
        except msgspec.ValidationError:
            hidden = leaf.secret or (override is not None and override.hidden)
            self._fault(at, _mismatch(leaf, value, hidden) + self._origin(at))
            return UNSET
        return converted

    def _origin(self, at: Keys) -> str:
        override = self._overrides.get(at)
        return f" (from {override.variable})" if override else ""

    def _fault(self, at: Keys, message: str) -> None:
        self._faulty.add(at)
        self.faults.append(Fault(dotted(at), message))

    def _check_forms(self, config: Config, raw: Mapping[str, object]) -> None:
        """A channel has a provider, or a table of several."""
        for name, channel in config.channels.items():
            for key in ONE_PROVIDER if channel.providers else ():
                at = ("channels", name, key)
                if _is_given(raw, at) or any(keys[: len(at)] == at for keys in self._overrides):
                    of = f"channels.{name}.providers"
                    self._fault(at, f"is for a channel with one provider, and {of} names several: give it there")

    def _check_providers(self, config: Config, providers: Providers) -> None:
        """A provider that does not exist is a fault, also where it is the default."""
        for name, channel in config.channels.items():
            self._check_provider(("channels", name, "provider"), channel.provider, providers)
            for key, one in channel.providers.items():
                self._check_provider(("channels", name, "providers", key, "provider"), one.provider, providers)

    def _check_provider(self, at: Keys, provider: str, providers: Providers) -> None:
        if provider in providers or at in self._faulty:
            return
        known = ", ".join(sorted(providers)) or "none"
        if not provider:
            self._fault(at, f"is missing; known are: {known}")
            return
        override = self._overrides.get(at)
        shown = "" if override and override.hidden else f" {quoted(provider)}"
        hint = did_you_mean(provider, providers)
        self._fault(at, f"unknown provider{shown}{hint}; known are: {known}{self._origin(at)}")

    def _check_relations(self, config: Config) -> None:
        """Relations whose keys are all sound: one with a faulty key would judge that key's default."""
        for relation in relations(config):
            if not relation.holds and self._faulty.isdisjoint(relation.reads):
                origins = "".join(self._origin(keys) for keys in relation.reads)
                self._fault(relation.at, relation.message + origins)


def _is_given(raw: object, at: Keys) -> bool:
    for key in at:
        if not isinstance(raw, dict) or key not in raw:
            return False
        raw = raw[key]
    return True


def _with_implicit(table: object, at: Keys) -> object:
    """Return a table with its implicit values."""
    return {**IMPLICIT[at], **table} if at in IMPLICIT and isinstance(table, dict) else table


def _mismatch(leaf: Leaf, value: object, hidden: bool) -> str:
    if hidden:
        return f"expected {expected(leaf)}, got something else (it is not shown)"
    known = leaf.info.values if isinstance(leaf.info, msgspec.inspect.LiteralType) else ()
    return f"expected {expected(leaf)}, got {got(value)}" + did_you_mean(value, [str(word) for word in known])
