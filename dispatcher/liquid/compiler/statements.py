"""The tags of a template, as Python statements."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import PurePath
from typing import Any, Final

from liquid.ast import BlockNode, Node
from liquid.builtin.content import ContentNode
from liquid.builtin.expressions import KeywordArgument, StringLiteral
from liquid.builtin.output import OutputNode
from liquid.builtin.tags.assign_tag import AssignNode
from liquid.builtin.tags.capture_tag import CaptureNode
from liquid.builtin.tags.case_tag import CaseNode, MultiExpressionBlockNode
from liquid.builtin.tags.comment_tag import CommentNode
from liquid.builtin.tags.doc_tag import DocNode
from liquid.builtin.tags.echo_tag import EchoNode
from liquid.builtin.tags.for_tag import BreakNode, ContinueNode, ForNode
from liquid.builtin.tags.if_tag import IfNode
from liquid.builtin.tags.include_tag import IncludeNode
from liquid.builtin.tags.inline_comment_tag import InlineCommentNode
from liquid.builtin.tags.liquid_tag import LiquidNode
from liquid.builtin.tags.render_tag import RenderNode
from liquid.builtin.tags.unless_tag import UnlessNode
from liquid.template import BoundTemplate

from dispatcher.liquid.compiler.expressions import HELPERS, Expressions
from dispatcher.liquid.compiler.scopes import Assigned, Loop, NotCompiled, Scope
from dispatcher.liquid.compiler.writer import JOIN, Writer
from dispatcher.liquid.language import FILTER_CALLS_MAX, BoundedEnvironment
from dispatcher.liquid.render_limits import LOOP_ITERATIONS_MAX, iterations_max

# Values that are joined before their length is checked.
VALUES_JOINED_MAX: Final = 32
# Loops and partials around each other; the library allows more, and so does it then.
DEPTH_MAX: Final = 10

Load = Callable[[str], BoundTemplate | None]


class Statements:
    """Writes one template, and what it renders and includes, as one function of the variables."""

    def __init__(self, environment: BoundedEnvironment, filters: Mapping[str, Any], load: Load, nodes: int) -> None:
        self._environment = environment
        self._load = load
        self._nodes = nodes
        self._writer = Writer(HELPERS)
        self._expressions = Expressions(self._writer, filters, autoescape=environment.autoescape)
        self._pending: list[str] = []
        self._has_flushed = False
        self._out = ""
        self._is_silent = False
        self._has_captures = False
        self._lengths: list[str] = []
        self._depth = 0
        self._can_include = True
        self._write: Final[Mapping[type[Node], Callable[[Any, Scope], None]]] = {
            AssignNode: self._assign,
            BreakNode: lambda _node, _scope: self._leave("break"),
            CaptureNode: self._capture,
            CaseNode: self._case,
            CommentNode: lambda _node, _scope: None,
            ContentNode: self._content,
            ContinueNode: lambda _node, _scope: self._leave("continue"),
            DocNode: lambda _node, _scope: None,
            EchoNode: self._output,
            ForNode: self._for,
            IfNode: self._if,
            IncludeNode: self._include,
            InlineCommentNode: lambda _node, _scope: None,
            LiquidNode: lambda node, scope: self._block(node.block, scope),
            OutputNode: self._output,
            RenderNode: self._render,
            UnlessNode: self._if,
        }

    def function(self, nodes: Sequence[Node]) -> Callable[..., str]:
        """The function, given the variables."""
        writer = self._writer
        limits = writer.reserve()
        self._out = "out"
        scope = self._scope(nodes, {})
        self._sequence(nodes, scope)
        if not self._has_flushed:
            writer.line(f"return {JOIN}({', '.join(self._pending)})")
            return writer.function("def render(v)")
        self._flush()
        limits(
            f"out = []; size = 0; left = {iterations_max(self._nodes, self._environment.work.limits)}; "
            f"calls = {FILTER_CALLS_MAX - self._expressions.calls}"
        )
        if self._has_captures:
            writer.line(f"if size > {self._environment.text_max // 4}: raise Unsure")
        writer.line(f"return {writer.constant('')}.join(out)")
        return writer.function("def render(v)")

    def _scope(self, nodes: Sequence[Node], given: Mapping[str, str]) -> Scope:
        assigned = {name: Assigned(self._writer.name("a")) for name in sorted(set(self._assigned(nodes, 0)))}
        for name, one in assigned.items():
            before = given.get(name) or f"v.get({self._writer.constant(str(name))}, MISSING)"
            self._writer.line(f"{one.variable} = {before}")
        return Scope(assigned, given)

    def _assigned(self, nodes: Sequence[Node], depth: int) -> Iterator[str]:
        """The names that are assigned anywhere in these nodes, or in what they include."""
        for node in nodes:
            if isinstance(node, AssignNode | CaptureNode):
                yield node.name
            if isinstance(node, IncludeNode):
                yield from self._assigned(self._partial(node.name, depth).nodes, depth + 1)
            else:
                yield from self._assigned(_children(node), depth)

    def _partial(self, name: object, depth: int) -> BoundTemplate:
        found = self._load(name.value) if isinstance(name, StringLiteral) else None
        if found is None or depth > DEPTH_MAX:
            raise NotCompiled("a partial")
        return found

    # Output

    def _add(self, code: str) -> None:
        if len(self._pending) >= VALUES_JOINED_MAX:
            self._flush()
        self._pending.append(code)

    def _flush(self) -> None:
        """Write what is to be put out so far."""
        if self._pending:
            self._writer.line(f"{self._out}.append(t := {JOIN}({', '.join(self._pending)}))")
            self._writer.line(f"if (size := size + len(t)) > {self._environment.text_max}: raise Unsure")
            self._pending = []
            self._has_flushed = True

    def _content(self, node: ContentNode, _scope: Scope) -> None:
        if node.text and not self._is_silent:
            self._add(self._writer.constant(str(node.text)))

    def _output(self, node: OutputNode, scope: Scope) -> None:
        self._add(self._expressions.output(self._expressions.value(node.expression, scope)))

    # Sequences

    def _sequence(self, nodes: Sequence[Node], scope: Scope) -> None:
        for node in nodes:
            write = self._write.get(type(node))
            if write is None:
                raise NotCompiled(type(node).__name__)
            write(node, scope)

    def _block(self, node: BlockNode, scope: Scope) -> None:
        """The statements of a block; a block of white space is silent."""
        was_silent = self._is_silent
        self._is_silent = was_silent or node.blank
        self._sequence(node.nodes, scope)
        self._is_silent = was_silent

    @contextmanager
    def _branch(self, head: str | None, scope: Scope) -> Iterator[None]:
        """A conditional or repeated block; its head may be reserved already."""
        self._flush()
        self._has_flushed = True
        sure = scope.sure()
        with self._writer.block(head):
            yield
            self._flush()
        scope.forget(sure)

    # Tags

    def _assign(self, node: AssignNode, scope: Scope) -> None:
        code = self._expressions.value(node.expression, scope)
        self._flush()
        one = scope.assigned[node.name]
        self._writer.line(f"{one.variable} = {code}")
        one.is_sure = True

    def _capture(self, node: CaptureNode, scope: Scope) -> None:
        self._flush()
        self._has_captures = self._has_flushed = True
        out, silent = self._out, self._is_silent
        self._out, self._is_silent = self._writer.name("o"), False
        self._writer.line(f"{self._out} = []")
        self._block(node.block, scope)
        self._flush()
        code = f"{self._writer.constant('')}.join({self._out})"
        one = scope.assigned[node.name]
        self._writer.line(f"{one.variable} = {f'Markup({code})' if self._environment.autoescape else code}")
        one.is_sure = True
        self._out, self._is_silent = out, silent

    def _if(self, node: IfNode | UnlessNode, scope: Scope) -> None:
        condition = self._expressions.condition(node.condition, scope)
        with self._branch(f"if {'not ' if isinstance(node, UnlessNode) else ''}{condition}:", scope):
            self._block(node.consequence, scope)
        for other in node.alternatives:
            with self._branch(f"elif {self._expressions.condition(other.expression, scope)}:", scope):
                self._block(other.block, scope)
        if node.default:
            with self._branch("else:", scope):
                self._block(node.default, scope)

    def _case(self, node: CaseNode, scope: Scope) -> None:
        """Each `when` that fits is rendered, as often as it does, and `else` where none did before."""
        self._flush()
        is_open = self._writer.name("d")
        self._writer.line(f"{is_open} = True")
        for block in node.blocks:
            if not isinstance(block, MultiExpressionBlockNode):
                with self._branch(f"if {is_open}:", scope):
                    self._block(block, scope)
                continue
            any_of = block.expression
            fits = [self._expressions.equal(any_of.left, one, scope) for one in any_of.expressions]
            if len(fits) > 1:
                self._flush()
                count = self._writer.name("c")
                self._writer.line(f"{count} = {' + '.join(fits)}")
                self._writer.line(f"if {count} > 1: raise Unsure")
                fits = [count]
            with self._branch(f"if {fits[0]}:", scope):
                self._writer.line(f"{is_open} = False")
                self._block(block.block, scope)

    def _leave(self, word: str) -> None:
        if not self._lengths or not self._lengths[-1]:
            raise NotCompiled(f"{word} outside of a loop")
        self._flush()
        self._writer.line(word)

    def _for(self, node: ForNode, scope: Scope) -> None:
        head, name = node.expression, self._writer.name
        self._has_flushed = True
        if head.identifier == "forloop" or isinstance(head.offset, StringLiteral):
            raise NotCompiled("a loop that goes on with another")
        self._flush()
        items = name("s")
        self._writer.line(f"{items} = {self._expressions.value(head.iterable, scope)}")
        self._writer.line(f"if type({items}) is not list: {items} = items({items})")
        if head.limit or head.offset or head.reversed:
            limit, offset = (
                self._expressions.value(one, scope) if one else "MISSING" for one in (head.limit, head.offset)
            )
            self._writer.line(f"{items} = window({items}, {limit}, {offset}, backwards={bool(head.reversed)})")
        loop = Loop(f"{head.identifier}-{head.iterable}", name("i"), name("n"), scope.loop())
        self._writer.line(f"{loop.length} = len({items})")
        with self._branch(f"if {loop.length}:", scope):
            self._iterate(items, loop, node, scope)
        if node.default:
            with self._branch("else:", scope):
                self._block(node.default, scope)

    def _iterate(self, items: str, loop: Loop, node: ForNode, scope: Scope) -> None:
        """Count off what the whole loop takes, and run."""
        identifier, variable = str(node.expression.identifier), self._writer.name("x")
        product = " * ".join(length for length in (*self._lengths, loop.length) if length)
        self._writer.line(f"if (left := left - {loop.length}) < 0 or {product} > {LOOP_ITERATIONS_MAX}: raise Unsure")
        count, start = self._writer.reserve(), self._writer.reserve()
        calls = self._expressions.calls
        self._enter(loop.length)
        scope.frames.append({"forloop": loop, identifier: variable})
        with self._branch(None, scope):
            self._block(node.block, scope)
        scope.frames.pop()
        self._exit()
        made = self._expressions.calls - calls
        if made:
            count(f"if (calls := calls - {loop.length} * {made}) < 0: raise Unsure")
        counted = f"{loop.index}, {variable} in enumerate({items})"
        start(f"for {counted}:" if loop.is_counted else f"for {variable} in {items}:")

    def _enter(self, length: str) -> None:
        self._depth += 1
        self._lengths.append(length)
        if self._depth > DEPTH_MAX:
            raise NotCompiled("nesting")

    def _exit(self) -> None:
        self._depth -= 1
        self._lengths.pop()

    # Partials

    def _given(self, args: Sequence[KeywordArgument], scope: Scope) -> dict[str, str]:
        self._flush()
        given = {}
        for one in args:
            given[str(one.name)] = variable = self._writer.name("g")
            self._writer.line(f"{variable} = {self._expressions.value(one.value, scope)}")
        return given

    def _include(self, node: IncludeNode, scope: Scope) -> None:
        """In the scope of its includer, behind what it is given."""
        if node.var is not None or not self._can_include:
            raise NotCompiled("a partial that is bound")
        partial = self._partial(node.name, self._depth)
        scope.frames.append({**self._given(node.args, scope)})
        self._depth += 1
        self._sequence(partial.nodes, scope)
        self._depth -= 1
        scope.frames.pop()

    def _render(self, node: RenderNode, scope: Scope) -> None:
        """In a scope of its own, where the variables are those of the rendering."""
        if node.loop:
            raise NotCompiled("a partial that is rendered for each")
        partial = self._partial(node.name, self._depth)
        given = self._given(node.args, scope)
        if node.var is not None:
            key = str(node.alias or PurePath(partial.name).name.split(".")[0])
            given[key] = self._writer.name("g")
            self._writer.line(f"{given[key]} = {self._expressions.value(node.var, scope)}")
        could_include, self._can_include = self._can_include, False
        self._enter("")
        self._sequence(partial.nodes, self._scope(partial.nodes, given))
        self._flush()
        self._exit()
        self._can_include = could_include


def _children(node: Node) -> Sequence[Node]:
    """The nodes inside of one, those of partials left out."""
    match node:
        case BlockNode():
            return node.nodes
        case IfNode() | UnlessNode():
            others = [one.block for one in node.alternatives]
            return [node.consequence, *others, *([node.default] if node.default else [])]
        case CaseNode():
            return [one.block if isinstance(one, MultiExpressionBlockNode) else one for one in node.blocks]
        case ForNode():
            return [node.block, *([node.default] if node.default else [])]
        case CaptureNode() | LiquidNode():
            return [node.block]
        case _:
            return []
