"""Template files: one template a file, with front matter first and its parts below."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import yaml
from msgspec import Struct

from dispatcher.base.errors import Fault, TemplateRefused, did_you_mean, quoted
from dispatcher.base.values.locales import UNNAMED, canonical
from dispatcher.cli.folders import content_of
from dispatcher.features.templates.rules import Draft, Flaw
from dispatcher.liquid import parts

SUFFIX = ".liquid"
FENCE = "---"
KEYS = ("name", "channel", "kind", "locale", "rights")
PARTIAL = "partial"
# All locales that a template may have, each with full parts at the default limits.
FILE_BYTES_MAX = 16 * 1024 * 1024

# `--- html ---`, or of another locale than the file's own `--- html de ---`.
_HEADING = re.compile(r"--- (\S+)(?: (\S+))? ---[ \t]*")


class TemplateFile(Struct, frozen=True):
    """A template file: its draft, and the line on which each part begins."""

    draft: Draft
    path: str
    lines: Mapping[tuple[str, str], int]

    def fault(self, flaw: Flaw) -> Fault:
        """Return a flaw of the draft as a fault with its line in the file."""
        begins = self.lines.get((flaw.locale, flaw.part))
        line = 1 if begins is None else begins + max(flaw.line - 1, 0)
        place = f"{flaw.place(self.draft.default_locale)}: " if flaw.locale or flaw.part else ""
        return Fault(f"{self.path}:{line}", place + flaw.words)


def read(path: Path, shown: str, name: str) -> TemplateFile:
    """Read a template file; without a name in its front matter the template has this `name`."""
    content = content_of(path, FILE_BYTES_MAX)
    if isinstance(content, str):
        raise TemplateRefused([Fault(shown, content)])
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        line = content.count(b"\n", 0, fault.start) + 1
        raise TemplateRefused([Fault(f"{shown}:{line}", "is not UTF-8")]) from fault
    return parse(text, shown, name)


def parse(text: str, path: str, name: str) -> TemplateFile:
    """Parse the text of a template file. TemplateRefused has all faults of its form."""
    reading = _Reading(path)
    lines = text.replace("\r\n", "\n").split("\n")
    body_at = reading.front_matter(lines)
    if reading.unread:
        raise TemplateRefused(reading.faults)
    partial = reading.kind()
    channel = None if partial else reading.given.get("channel", "")
    if not partial and not channel:
        reading.fault(1, f"has no channel and is not a partial: `channel: email`, or `kind: {PARTIAL}`")
    locale = reading.locale(reading.given.get("locale", UNNAMED), reading.at.get("locale", 1))
    reading.sections(lines, body_at, locale)
    if reading.faults:
        raise TemplateRefused(reading.faults)
    draft = Draft(
        name=reading.given.get("name", name),
        channel=channel,
        default_locale=locale,
        locales=reading.locales,
        rights=frozenset(reading.rights),
    )
    return TemplateFile(draft, path, reading.lines)


class _Reading:
    """The state of reading a file: what was found, and every fault."""

    def __init__(self, path: str) -> None:
        self._path = path
        self.faults: list[Fault] = []
        # Without sound front matter the rest is not read.
        self.unread = False
        self.given: dict[str, str] = {}
        self.rights: list[str] = []
        self.at: dict[str, int] = {}
        self.locales: dict[str, dict[str, str]] = {}
        self.lines: dict[tuple[str, str], int] = {}

    def fault(self, line: int, words: str) -> None:
        self.faults.append(Fault(f"{self._path}:{line}", words))

    def front_matter(self, lines: list[str]) -> int:
        """Read the text between the first two fences; returns where the rest begins."""
        fences = [number for number, line in enumerate(lines) if line.rstrip() == FENCE][:2]
        if len(fences) < 2 or fences[0] != 0:  # noqa: PLR2004 - it begins and it ends
            self.fault(1, f"has no front matter: it begins with a line {FENCE}, and ends with another")
            self.unread = True
            return 0
        try:
            node = yaml.compose("\n".join(lines[1 : fences[1]]), Loader=yaml.SafeLoader)
        except yaml.YAMLError as fault:
            mark = getattr(fault, "problem_mark", None)
            self.fault(2 + (mark.line if mark else 0), f"is no YAML: {getattr(fault, 'problem', None) or 'unreadable'}")
            self.unread = True
            return fences[1] + 1
        if node is not None and not isinstance(node, yaml.MappingNode):
            self.fault(2, "expected keys and values, such as `channel: email`")
            self.unread = True
        elif node is not None:
            for key, value in node.value:
                self._entry(key, value)
        return fences[1] + 1

    def _entry(self, key: yaml.Node, value: yaml.Node) -> None:
        """Read a key. Values are taken as they are written: the language `no` is not a boolean."""
        line, name = 2 + key.start_mark.line, str(key.value)
        if name not in KEYS:
            self.fault(line, f"unknown key {quoted(name)}{did_you_mean(name, KEYS)}; known are {', '.join(KEYS)}")
        elif name in self.at:
            self.fault(line, f"{name} is given twice")
        elif name == "rights" and isinstance(value, yaml.SequenceNode):
            self.rights = [str(one.value) for one in value.value]
        elif not isinstance(value, yaml.ScalarNode):
            self.fault(line, f"{name}: expected a text")
        elif name == "rights":
            self.rights = str(value.value).split()
        else:
            self.given[name] = str(value.value)
        self.at.setdefault(name, line)

    def kind(self) -> bool:
        """Whether it is a partial."""
        kind = self.given.get("kind")
        if kind is not None and kind != PARTIAL:
            self.fault(self.at["kind"], f"kind: expected {PARTIAL}, or leave it out")
        if kind is not None and "channel" in self.given:
            self.fault(self.at["channel"], "a partial has no channel: the template that includes it has one")
        return kind is not None

    def locale(self, text: str, line: int) -> str:
        """Return a locale in its stored form."""
        found = canonical(text)
        if found is None:
            self.fault(line, f"{text} is no locale, such as de or pt-BR")
        return found or text

    def sections(self, lines: list[str], start: int, default: str) -> None:
        """Read the parts: each below its heading, or the body if there is no heading."""
        found: list[tuple[str, str, int]] = []
        for number in range(start, len(lines)):
            heading = _HEADING.fullmatch(lines[number])
            if heading is not None:
                locale = default if heading[2] is None else self.locale(heading[2], number + 1)
                found.append((locale, heading[1], number))
        if not found:
            self._part(default, "body", lines, start, len(lines))
            return
        for number in range(start, found[0][2]):
            if lines[number].strip():
                self.fault(number + 1, "stands before the first heading")
        ends = [number for _, _, number in found[1:]] + [len(lines)]
        for (locale, part, number), end in zip(found, ends, strict=True):
            self._part(locale, part, lines, number + 1, end)

    def _part(self, locale: str, part: str, lines: list[str], start: int, end: int) -> None:
        said = self.locales.setdefault(locale, {})
        if part in said:
            self.fault(start, f"{part} of {locale} is given twice")
        for number in range(start, end):
            if "\0" in lines[number]:
                self.fault(number + 1, f"{part}:{number - start + 1}: has a NUL character")
        said[part] = "\n".join(lines[start:end]).rstrip("\n")
        self.lines[locale, part] = start + 1


def text(draft: Draft) -> str:
    """Return a draft as the text of a template file."""
    head = [f"name: {draft.name}", f"kind: {PARTIAL}" if draft.channel is None else f"channel: {draft.channel}"]
    if draft.default_locale != UNNAMED:
        head.append(f"locale: {draft.default_locale}")
    if draft.rights:
        head.append(f"rights: [{', '.join(sorted(draft.rights))}]")
    return "\n".join([FENCE, *head, FENCE, *_sections(draft), ""])


def _sections(draft: Draft) -> Iterator[str]:
    plain = draft.locales.get(draft.default_locale, {})
    if (
        len(draft.locales) == 1
        and list(plain) == ["body"]
        and not any(map(_HEADING.fullmatch, plain["body"].split("\n")))
    ):
        yield plain["body"]
        return
    for locale in sorted(draft.locales, key=lambda locale: (locale != draft.default_locale, locale)):
        for part in parts.in_order(draft.channel, draft.locales[locale]):
            of = "" if locale == draft.default_locale else f" {locale}"
            yield f"--- {part}{of} ---"
            yield draft.locales[locale][part]
