"""Data decide, not prose: no code of the package looks at the words of a sentence it or another has written.

Prose are the texts of verdicts, checks, advice, errors and descriptions, and whatever a function makes of
them (a name given to them, an element, a part, a joined or formatted text). Looking at it is comparing it,
searching in it, taking it apart, or matching it.
"""

import ast
import textwrap

import pytest

from tests import ROOT

SOURCE = ROOT / "src" / "denseam"

#: Attributes and keys of documents that hold sentences ('data' of a record is a description), names that are
#: given to sentences, and calls that make them.
ATTRIBUTES = {"reason", "next_step", "flags", "advice", "message", "problems", "strerror", "skipped"}
KEYS = {"reason", "next", "flags", "advice", "data"}
NAMES = {"reason", "next_step", "advice", "message", "problem", "problems", "sentence", "description"}
MAKERS = {"describe", "explain", "problems", "problem"}
SENTENCES = {"sentences"}
ERRORS = {"error", "exception", "exc", "warning"}
#: What an error holds of its text.
OF_ERRORS = {"args", "msg", "reason"}

COMPARISONS = (ast.Eq, ast.NotEq, ast.In, ast.NotIn)
SEARCHES = {
    "startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition", "rpartition",
    "removeprefix", "removesuffix",
}  # fmt: skip
MATCHES = {"match", "fullmatch", "search", "findall", "finditer", "sub", "subn"}


class Prose:
    """What is prose in one function or module."""

    def __init__(self, scope):
        self.errors, self.names = set(ERRORS), set(NAMES)
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
        while before != len(self.names):  # until nothing more is made of prose
            before = len(self.names)
            for node in nodes:
                for target, value in assigned(node):
                    if self.holds(value):
                        self.names |= {n.id for n in ast.walk(target) if isinstance(n, ast.Name)}

    def is_error(self, node):
        return isinstance(node, ast.Name) and node.id in self.errors

    def holds(self, node):
        """Whether an expression is prose, or made of it."""
        match node:
            case ast.Name(id=name):
                return name in self.names
            case ast.Attribute(value=value, attr=attr):
                return attr in ATTRIBUTES or (attr in OF_ERRORS and self.is_error(value))
            case ast.Subscript(value=value, slice=key):
                return self.holds(value) or (isinstance(key, ast.Constant) and key.value in KEYS)
            case ast.Call():
                return self.made(node)
            case ast.JoinedStr(values=values):
                return any(isinstance(v, ast.FormattedValue) and self.text_of(v.value) for v in values)
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
            case ast.Name(
                id="list"
                | "tuple"
                | "set"
                | "sorted"
                | "dict"
                | "enumerate"
                | "zip"
                | "next"
                | "iter"
                | "map"
            ):
                return any(map(self.holds, call.args))
            case ast.Attribute(value=ast.Name(id=module), attr=_) if module in SENTENCES:
                return True
            case ast.Attribute(value=value, attr=attr):
                return (
                    attr in MAKERS
                    or self.holds(value)
                    or (attr == "join" and any(map(self.holds, call.args)))
                )
        return False


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
    return []


def looks(node, prose):
    """Whether a node looks at the words of prose."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            sides = [left, *others]
            return any(
                isinstance(op, COMPARISONS) and (prose.holds(a) or prose.holds(b))
                for op, a, b in zip(ops, sides, sides[1:], strict=False)
            )
        case ast.Match(subject=subject):
            return prose.holds(subject)
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=args, keywords=keywords):
            given = [*args, *(k.value for k in keywords)]
            searched = prose.holds(value) and (
                attr in SEARCHES or (attr in ("split", "rsplit") and bool(given))
            )
            return searched or (attr in MATCHES and any(map(prose.holds, given)))
    return False


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


def violations(source):
    """Lines that look at prose."""
    lines = set()
    for scope in scopes(ast.parse(source)):
        prose = Prose(scope)
        lines |= {node.lineno for node in ast.walk(scope) if looks(node, prose)}
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
if name.startswith("dF by matrix"): pass
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
