"""Data decide, not prose: no code of the package looks at the words of a sentence it or another has written.

Prose are the texts of verdicts, checks, advice, errors and descriptions, and whatever the code of a module makes
of them: a name or attribute given to them, an element, a part, a joined or formatted text, the argument of a
function. Looking at it is comparing it, searching in it, taking it apart, matching it, or looking it up in a table.
"""

import ast
import textwrap

import pytest

from tests import ROOT

SOURCE = ROOT / "src" / "denseam"

#: Attributes and keys of documents that hold sentences ('data' of a record is a description, but that of a study
#: is a name), names that are given to sentences, and calls that make them.
ATTRIBUTES = {
    "reason", "next_step", "flags", "advice", "message", "problems", "strerror", "skipped", "help", "meaning", "remark",
}  # fmt: skip
KEYS = {"reason", "next", "flags", "advice"}
OF_RECORDS = {"data"}
NAMES = {
    "reason",
    "next_step",
    "advice",
    "message",
    "problem",
    "problems",
    "sentence",
    "description",
    "reasons",
}
MAKERS = {
    "describe",
    "explain",
    "problems",
    "problem",
    "format_exc",
    "format_message",
    "get_title",
    "get_text",
}
SENTENCES = {"sentences"}
ERRORS = {"error", "exception", "exc", "warning"}
#: What an error holds of its text.
OF_ERRORS = {"args", "msg", "reason"}
#: Calls whose result holds what they are given.
PASSING = {
    "list", "tuple", "set", "sorted", "dict", "enumerate", "zip", "next", "iter", "map", "filter", "min", "max",
    "reversed",
}  # fmt: skip

SEARCHES = {
    "startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition", "rpartition", "removeprefix",
    "removesuffix", "isupper", "islower", "istitle", "isdigit", "__contains__",
}  # fmt: skip
MATCHES = {
    "match",
    "fullmatch",
    "search",
    "findall",
    "finditer",
    "sub",
    "subn",
    "split",
    "fnmatch",
    "contains",
}
LOOKUPS = {"get", "pop", "setdefault"}


class Prose:
    """What is prose in one function or module; `given` are arguments that its callers pass as prose."""

    def __init__(self, scope, given=()):
        self.errors, self.names, self.attributes = set(ERRORS), NAMES | set(given), set(ATTRIBUTES)
        nodes = list(ast.walk(scope))
        for node in nodes:
            if isinstance(node, ast.ExceptHandler) and node.name:
                self.errors.add(node.name)
            if isinstance(node, ast.arg) and node.annotation is not None:
                words = {
                    part.split(".")[-1] for part in ast.unparse(node.annotation).replace('"', "").split(" | ")
                }
                if any(word.endswith(("Error", "Exception", "Warning")) for word in words):
                    self.errors.add(node.arg)
        before = -1
        while before != (
            before := len(self.names) + len(self.attributes)
        ):  # until nothing more is made of prose
            for node in nodes:
                for target, value in assigned(node):
                    if self.holds(value):
                        self.name(target)

    def name(self, target):
        """Note that a target holds prose: a name, an attribute, or the elements of a pattern."""
        match target:
            case ast.Name(id=name):
                self.names.add(name)
            case ast.Attribute(value=ast.Name(id="self"), attr=attr):
                self.attributes.add(attr)
            case ast.Subscript(value=container):
                self.name(container)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                for part in parts:
                    self.name(part)
            case ast.Starred(value=part):
                self.name(part)

    def is_error(self, node):
        return isinstance(node, ast.Name) and node.id in self.errors

    def holds(self, node):
        """Whether an expression is prose, or made of it."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(value=value, attr=attr):
                return attr in self.attributes or (attr in OF_ERRORS and self.is_error(value))
            case ast.Subscript(value=value, slice=key):
                return self.holds(value) or named(key, KEYS | OF_RECORDS)
            case ast.Call():
                return self.made(node)
            case ast.JoinedStr(values=values):
                return any(isinstance(v, ast.FormattedValue) and self.text_of(v.value) for v in values)
            case ast.BinOp(left=left, op=ast.Mod(), right=right):
                return self.text_of(left) or self.text_of(right)
            case ast.BinOp(left=left, right=right):
                return self.holds(left) or self.holds(right)
            case (
                ast.BoolOp(values=values)
                | ast.Tuple(elts=values)
                | ast.List(elts=values)
                | ast.Set(elts=values)
            ):
                return any(map(self.holds, values))
            case ast.IfExp(body=body, orelse=orelse):
                return self.holds(body) or self.holds(orelse)
            case ast.Starred(value=value) | ast.NamedExpr(value=value) | ast.Await(value=value):
                return self.holds(value)
            case ast.ListComp(elt=elt) | ast.SetComp(elt=elt) | ast.GeneratorExp(elt=elt):
                return self.holds(elt)
        return False

    def text_of(self, node):
        return self.holds(node) or self.is_error(node)

    def made(self, call):
        """Whether a call gives prose: str(error), describe(), a method of prose, a join, a sentence."""
        match call.func:
            case ast.Name(id="str" | "repr" | "format"):
                return any(map(self.text_of, call.args))
            case ast.Name(id="getattr"):
                return any(named(argument, self.attributes) for argument in call.args[1:2])
            case ast.Name(id=name):
                return name in MAKERS or (name in PASSING and any(map(self.holds, call.args)))
            case ast.Attribute(value=ast.Name(id=module), attr=_) if module in SENTENCES:
                return True
            case ast.Attribute(value=value, attr=attr):
                given = [*call.args, *(keyword.value for keyword in call.keywords)]
                return (
                    attr in MAKERS
                    or self.holds(value)
                    or (attr == "join" and any(map(self.holds, given)))
                    or (attr == "format" and any(map(self.text_of, given)))
                    or (attr in LOOKUPS and any(named(argument, KEYS) for argument in given[:1]))
                )
        return False


def named(node, names):
    """Whether a node is one of these names as a constant, as in row["reason"]."""
    return isinstance(node, ast.Constant) and node.value in names


def assigned(node):
    """Pairs of what gets a value in a node, and the value."""
    match node:
        case ast.Assign(targets=targets, value=value):
            return [(target, value) for target in targets]
        case ast.AnnAssign(target=target, value=value) | ast.AugAssign(target=target, value=value) if (
            value is not None
        ):
            return [(target, value)]
        case ast.NamedExpr(target=target, value=value):
            return [(target, value)]
        case ast.For(target=target, iter=value) | ast.comprehension(target=target, iter=value):
            return [(target, value)]
        case ast.Call(func=func, args=args):  # (lambda text: …)(reason), filter(lambda text: …, reasons)
            functions = [f for f in (func, *args) if isinstance(f, ast.Lambda)]
            names = [ast.Name(id=a.arg) for f in functions for a in f.args.args]
            return [(name, value) for name in names for value in args if not isinstance(value, ast.Lambda)]
    return []


def looks(node, prose):
    """Whether a node looks at the words of prose."""
    match node:
        case ast.Compare(left=left, comparators=others):
            sides = [left, *others]
            return not any(map(is_none, sides)) and any(map(prose.holds, sides))
        case ast.Match(subject=subject):
            return prose.holds(subject)
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return prose.holds(left) or prose.holds(right)
        case ast.Subscript(slice=key):  # a table of sentences
            return prose.holds(key)
        case ast.Attribute(value=value, attr=attr) if attr in SEARCHES:
            return prose.holds(value)
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args, keywords=keywords):
            given = [*args, *(k.value for k in keywords)]
            if prose.holds(value):
                return attr in ("split", "rsplit") and bool(given)
            return attr in MATCHES | LOOKUPS and any(
                map(prose.holds, given[:1] if attr in LOOKUPS else given)
            )
    return False


def is_none(node):
    return isinstance(node, ast.Constant) and node.value is None


def scopes(tree):
    """Every function that stands in no other, and the module without them."""
    functions = []

    def take(node):
        rest = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                functions.append(child)
            elif isinstance(child, ast.ClassDef):
                rest += take(child)
            else:
                rest.append(child)
        return rest

    outside = take(tree)
    return [*functions, ast.Module(body=outside, type_ignores=[])]


def passed(scope, prose, functions):
    """The names of functions in this module with those of their parameters that are given prose here."""
    for call in ast.walk(scope):
        match call:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in functions:
                parameters = [a.arg for a in functions[name].args.args if a.arg not in ("self", "cls")]
                given = [
                    *zip(parameters, call.args, strict=False),
                    *((k.arg, k.value) for k in call.keywords),
                ]
                yield from ((name, parameter) for parameter, value in given if prose.holds(value))


def violations(source):
    """Lines that look at prose."""
    tree = ast.parse(source)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    inside = {
        name: {n.name for n in ast.walk(f) if isinstance(n, ast.FunctionDef)} for name, f in functions.items()
    }
    given, before = set(), -1
    while before != (before := len(given)):  # until no function is given more
        lines = set()
        for scope in scopes(tree):
            own = inside.get(getattr(scope, "name", ""), ())
            prose = Prose(scope, {parameter for name, parameter in given if name in own})
            lines |= {node.lineno for node in ast.walk(scope) if looks(node, prose)}
            given |= set(passed(scope, prose, functions))
    return sorted(lines)


PLANTED = """
if verdict.next_step == "Run more seeds.": pass
unsure = "Nothing was learned" in found.reason
if found.verdict.reason not in known: pass
any("edge falls" in flag for flag in v.flags)
if tuned.advice.lower().startswith("centre"): pass
hit = check.reason.endswith("more seeds")
where = v.reason.find("N = ")
often = str(check.reason).count("s1")
found = re.search(r"N = (\\d+)", v.reason)
found = PATTERN.fullmatch(study.source().describe())
if "K" in study.describe(): pass
letter = study.describe().split(";")[0]
any(p.startswith("scales") for p in problems)
if any(text.startswith("scales") for text in error.problems): pass
if document["reason"] != "": pass
if row["verdict"]["next"] in known: pass
step = v.next_step\\nif step == "Run more seeds.": pass
first, *rest = error.problems\\nfirst.startswith("scales")
for line in v.flags:\\n    kind, _, rest = line.partition(":")
if (text := check.reason) and "s1" in text: pass
text = f"{v.name}: {v.reason}"\\nif "s1" in text: pass
text = " ".join(v.flags)\\nif "seeds" in text: pass
text = ""\\ntext += v.reason\\nif "seeds" in text: pass
match v.reason:\\n    case "x": pass
if sentences.reason(v) == "x": pass
try: f()\\nexcept ValueError as e:\\n    if "memory" in str(e): raise
try: f()\\nexcept ValueError as e:\\n    if "memory" in f"{e}": raise
try: f()\\nexcept OSError as e:\\n    lost = e.args[0] == "lost"
try: f()\\nexcept OSError as e:\\n    said = " ".join(str(e).split())\\n    lost = said.startswith("lost")
def f(trouble: ValueError):\\n    return "memory" in str(trouble)
def f(trouble: OSError | None):\\n    return re.match("memory", str(trouble))
if "rule" in str(warning.message): pass
if v.reason is REASON or v.reason < "x": pass
if row.get("reason") == "x" or d.get("next", "").startswith("Run"): pass
if getattr(v, "reason") == "x": pass
step = ACTIONS[v.next_step]
step = ACTIONS.get(v.next_step)
self.text = v.reason\\nif "x" in self.text: pass
if any(map(v.reason.startswith, ("a", "b"))): pass
if re.split("x", v.reason): pass
if min(v.flags) == "a" or set(v.flags) & {"a"}: pass
for text in filter(lambda line: "x" in line, v.flags): pass
def g(text):\\n    return "x" in text\\ng(v.reason)
def g(text):\\n    return h(line=text)\\ndef h(line):\\n    return line.startswith("x")\\ng(v.reason)
def f(verdict):\\n    def g(line):\\n        return line.startswith("x")\\n    return g(verdict.reason)
if describe(study) == "x": pass
label, _, verdict = ax.get_title(loc="left").rpartition(": ")
try: f()\\nexcept ValueError as e:\\n    text = "%s" % e\\n    if "memory" in text: pass
try: f()\\nexcept ValueError as e:\\n    text = "{}".format(e)\\n    if "memory" in text: pass
try: f()\\nexcept ValueError as e:\\n    if "memory" in traceback.format_exc(): pass
if "parameterization" in problem and rows[0]["data"] not in known: pass
""".strip().splitlines()

INNOCENT = """
if verdict.cause is Cause.SEEDS_DIFFER: pass
if verdict.status == "FAILS" or verdict.status in ("DRIFTS",): pass
if check.cause: print(check.reason)
lines = [line for line in [v.reason, *v.flags, v.next_step] if line]
if not problems: raise InputError(*problems)
short = " ".join(str(error).split())[:160]
if isinstance(error, MemoryError) and error.errno == 2: pass
raw.array.flags.writeable
if quantity in matrices: pass
if v.reason is None: pass
if len(error.problems) == 1: pass
if str(path).endswith(".npy"): pass
""".strip().splitlines()


@pytest.mark.parametrize("text", PLANTED)
def test_what_looks_at_prose_is_found(text):
    source = text.replace("\\n", "\n")
    assert violations(source), source
    inside = "class A:\n    def f(self):\n" + textwrap.indent(source, " " * 8)
    assert violations(inside), inside


@pytest.mark.parametrize("text", INNOCENT)
def test_what_does_not_is_not(text):
    assert not violations(text)


def test_no_code_looks_at_prose():
    found = {}
    for path in sorted(SOURCE.rglob("*.py")):
        name = path.relative_to(SOURCE).as_posix()
        lines = violations(path.read_text(encoding="utf-8"))
        if lines:
            found[name] = lines
    assert not found
