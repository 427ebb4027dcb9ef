"""Says what a kernel uses scalars, constants and elements of arrays for, such as conditions or divisors."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from tuner.drafting.roles.borders import end_of
from tuner.drafting.roles.inference import INDEX
from tuner.space.sources.tokens import matching

_NUMBER = r"(?:- )?\d[\w.]*"
_ZERO = r"0(?:\.0*)?f?"
_FLOATING = r"\b\d+(?:\.\d*)?[eE]|\b\d+\.\d*|\b(?:r?sqrt|cbrt|exp2?|log(?:2|10)?|pow|sin|cos|tanh?|f?abs)f? \("
_HEADER = re.compile(r"^ *(?:else )?(?:if|while) \( [^()]*(?:\([^()]*(?:\([^()]*\)[^()]*)*\)[^()]*)*\)|^ *else\b")
_DECLARED = re.compile(
    r"^ *(?:(?:const|static|unsigned) )*"
    r"(?:int|unsigned|long|u?short|u?char|bool|auto|size_t|u?(?:int|long)\d*(?:_t)?)(?: long)* (\w+)"
)
_NO_VALUE = re.compile(r"\b(?:for|while|switch|case|pragma|__shared__|__local)\b|\w \* (?:\w+ )*\w+ = ")
_ASSIGNS = re.compile(r" *(?:(?:\w+ )*\w+ (?:\. \w+ )?(?:[-+*/] )?= (?!=)|return\b)")
_LOOP = re.compile(r"\b(?:for|while) \(")
_WORD = re.compile(r"(?<!\. )\b[A-Za-z_]\w*")
_ELEMENT = re.compile(r"\b(\w+) @")
_INDEX = re.compile(r"\[[^\[\]]*\]")
_BEGUN_LOOP = re.compile(r"\b(?:for \( (?:(?:\w+ )*?\w+ = [01] )?; |while \( )(\w+) < (?:= )?$")
_LIMITS = re.compile(r"\b(?:f?(?:min|max)f?|clamp) \(")
_COUNTER = re.compile(r"j|t|it|iter(?:ation)?|i?step|stage|pass|(?i:\w*seed)")


def is_condition(names: Collection[str], body: str) -> bool:
    """Whether an element of an array (`names`: its name and aliases) is a condition: `mask[i] ? x : y`."""
    element = _element(names, body)
    alone = rf"(?:if|while) \( {element} \)|! {element}|(?:& &|\| \|) {element} [)&|?]"
    return (
        re.search(rf"{alone}|(?<![-+*/%<>] )(?<![<>=!] = ){element} (?:\?|& &|\| \||[!=] = {_ZERO} )", body) is not None
    )


def is_compared(names: Collection[str], body: str) -> bool:
    """Whether the elements of an array are only compared with numbers, as in `mask[i] > 0.5f`."""
    element = _element(names, body)
    compared = (
        rf"(?<![-+*/] ){element} (?:[<>]|[=!<>] =) {_NUMBER} |(?<= ){_NUMBER} (?:[<>]|[=!<>] =) {element}(?! [-+*/])"
    )
    named = rf"\b\w+ = {element} ;"
    rest = re.sub(named, "", re.sub(compared, "", body))
    return rest != re.sub(named, "", body) and re.search(element, rest) is None


def is_code(name: str, body: str) -> bool:
    """Whether a scalar is only tested for equality or by its bits, so that it is no size."""
    uses = len(re.findall(rf"(?<!\. )\b{name}\b", body))
    equal = rf"[=!] = {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} [=!] =|\bswitch \( {name} \)"
    bits = rf"(?<![&|] )[&|^] {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} (?:[&|^] (?![&|]))"
    return 0 < uses == len(re.findall(rf"{equal}|{bits}", body))


def is_counter(name: str, body: str) -> bool:
    """Whether a scalar has the name of a counter, such as that of time steps, or of a seed, and no index or comparison
    reads it."""
    if _COUNTER.fullmatch(name) is None:
        return False
    compared = rf"[<>] (?:= )?{name}\b|(?<!\. )\b{name} (?:[<>])|\[[^\[\]]*\b{name}\b"
    whole = rf"\b(?:int|unsigned|long|size_t) \w+ = [^;]*\b{name}\b"
    return re.search(compared if "seed" in name.lower() else f"{compared}|{whole}", body) is None


def is_case(name: str, body: str) -> bool:
    """Whether a constant is only one of the values that something is compared with, so that it is no knob."""
    if _is_choice(name, body):
        return False
    uses = len(re.findall(rf"(?<!\. )\b{name}\b", body))
    return (
        0 < uses == len(re.findall(rf"[=!] = {name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} [=!] =|\bcase {name} :", body))
    )


def _is_choice(name: str, body: str) -> bool:
    """Whether a constant is itself compared with a number, as in `if (METHOD == 2)`: it chooses among codes."""
    before = r"(?<![-+*/%<>.] )\b"  # a remainder or a sum is compared, not a choice
    return re.search(rf"{before}{name} [=!] = \d|{before}\d\w* [=!] = {name}\b", body) is not None


def computed(body: str, arrays: Collection[str]) -> set[str]:
    """The names of what a kernel computes from elements or stores as such, and of these arrays, if neither loops nor
    indices follow from them."""
    words, flat = body.split(" "), body
    heads = [words[at : matching(words, at)] for at in range(1, len(words)) if words[at - 1] in ("for", "while")]
    hidden = {word for head in heads for word in head}
    while inner := _INDEX.findall(flat):
        hidden |= {word for each in inner for word in each.split(" ")}
        flat = _INDEX.sub("@", flat)
    every, found = list[tuple[str, set[str]]](), {*_ELEMENT.findall(flat)}
    arrays = {*arrays, *found}
    for star, name, index, value in re.findall(r"(\w \* )?\b(\w+)((?: @)*) (?:[-+*/|&^] )?= (?!=)([^;{}]*)", flat):
        names, pointers = {*_WORD.findall(value)} - arrays, {*_WORD.findall(_ELEMENT.sub("", value))}
        if star or not arrays.isdisjoint(pointers if index else {name, *pointers}):
            hidden |= names  # an offset of a pointer
        every.append((name, names | {*_ELEMENT.findall(value)}))
        every += [(value.strip(), {name})] if index and value.strip().isidentifier() else []
    while more := {word for name, value in every if name in hidden for word in value} - hidden:
        hidden |= more
    found -= hidden
    while more := {name for name, value in every if name not in found | hidden and value & found}:
        found |= more
    return found


def is_quantity(name: str, text: str, floats: Collection[str], values: Collection[str]) -> bool:
    """Whether a constant is only stored as it is, compared with what is computed from elements, or a term or factor of
    this or of floating-point numbers: another value computes something else.

    text: tokens of the kernels and of the functions that they call, joined by blanks
    floats: names of floating-point numbers, their arrays and their types
    values: the names that `computed` tells
    """
    names = "|".join(map(re.escape, sorted({*floats, *values, "float", "double"})))
    evidence = rf"{_FLOATING}|\b(?:{names})\b"
    if _is_choice(name, text):
        return False
    element = rf"(?<![-+*/%] )\b(?:{'|'.join(map(re.escape, sorted(values))) or '-'})(?: {INDEX})?"
    sign = "(?:[<>] (?:= )?|[=!] = )"
    text, count = re.subn(
        rf"{element} {sign}{name}\b(?! [-+*/%])|(?<![-+*/%] )\b{name} {sign}{element}(?! [-+*/%])", "0", text
    )
    if re.search(rf"! {name}\b|\b{name} (?:& &|\| \||\?)|(?:& &|\| \|) {name}\b", text):
        return False  # a condition
    found = count > 0
    for each in re.split("[;{}]", text):
        statement = _HEADER.sub("", each[_end_of_loop(each) :])
        if re.search(rf"\b{name}\b", each) is None:
            continue
        if re.search(rf"\b{name}\b", each[: len(each) - len(statement)]) or _NO_VALUE.search(statement):
            return False
        declared = _DECLARED.match(statement)
        if declared is not None and declared[1] not in values:
            return False
        if re.search(rf"[<>%] (?:= )?{name}\b|\b{name} [<>%]", statement):
            return False
        if re.search(rf"[(,] {name} [,)]", statement) and not _LIMITS.search(statement):
            return False  # an argument of a function
        is_stored = re.search(rf"(?:\]|\. \w+) = {name} *$", statement) is not None
        whole = statement
        while (outside := _INDEX.sub("", whole)) != whole:
            whole = outside
        is_float = re.search(r"(?<![<>=!]) = (?!=)|\breturn\b", whole) and re.search(evidence, whole)
        if not re.search(rf"\b{name}\b", whole) or not (is_stored or is_float):
            return False
        found = True
    return found


def enters_numbers(name: str, text: str, types: Collection[str]) -> bool:
    """Whether a constant is a term or factor of floating-point numbers, which are of these `types`, outside of indices,
    pointers and positions of threads: another value may compute something else."""
    kinds = "|".join(map(re.escape, sorted(types)))
    floats = "|".join(sorted({*re.findall(rf"\b(?:{kinds}) (\w+)\b(?! \()", text), *types}))
    operand = re.compile(rf"[-+*/] (?:\( )*{name}\b|\b{name} (?:\) )*[-+*/] (?!=)")
    is_other = re.compile(rf"\b(?:{kinds})\d? (?:const )?\*|(?:thread|block)(?:Idx|Dim)|\bget_\w+_id|\bfor \(")
    numbers = re.compile(rf"{kinds}|return|(?:__|native_)?(?:r?sqrt|exp|log|pow|sin|cos|tan|f?abs|fma|f?m(?:in|ax))\w*")
    for each in filter(re.compile(rf"\b{name}\b").search, re.split("[;{}]", text)):
        whole = _HEADER.sub("", each[_end_of_loop(each) :])
        while (outside := _INDEX.sub("", whole).replace("  ", " ")) != whole:
            whole = outside
        if _ASSIGNS.match(whole) is None or _DECLARED.match(whole) or is_other.search(whole):
            continue
        is_float = re.search(rf"{_FLOATING}|(?<!\. )\b(?:{floats})\b", each)
        begin = whole.rfind("?")  # behind a condition
        places = (match.start() for match in operand.finditer(whole) if match.start() > begin)
        if is_float and any(all(map(numbers.fullmatch, _calls(whole, at))) for at in places):
            return True
    return False


def _calls(text: str, at: int) -> Iterator[str]:
    """The functions with the position among their arguments, the innermost first."""
    depth = 0
    while at > 0:
        at -= 1
        depth += (text[at] == "(") - (text[at] == ")")
        if depth > 0:
            depth = 0
            yield from re.findall(r"(\w+|>) $", text[max(0, at - 40) : at])


def _end_of_loop(piece: str) -> int:
    """Where the last part of a loop's head ends in `i += 2 ) y [ i ] = 0`; 0 without one."""
    depth = 0
    for bracket in re.finditer(r"[()]", piece):
        depth += 1 if bracket[0] == "(" else -1
        if depth < 0:
            return bracket.end()
    return 0


def is_offset(name: str, body: str, numbers: Collection[str]) -> bool:
    """Whether a constant is only a term of indices and of what these are compared with, beside names that are no
    constants, as in `x[i - HALO]` and `y * (width + 2 * HALO)`; one that is also a factor is a tile."""
    for _ in range(2):
        body = re.sub(rf"\b\d+ \* {name}\b|\b{name} \* \d+\b|(?<!\w )\( {name} \)", name, body)
    if re.search(
        rf"(?:[*/%]|[-+*/%&|^] =|< <|> >) {name}\b|\b{name} (?:[*/%]|< <|> >)|prefetch\w* \([^;]*\b{name}\b", body
    ):
        return False
    body = re.sub(r"\b(?:__shared__|__local) [^;]*;|\bblockDim \. \w|\bget_local_size \( \d \)", "", body)
    sums = re.findall(rf"((?:[\w.\])]+ [-+] )+){name}\b|\b{name}((?: [-+] [\w.(\[]+)+)", body)
    terms = {word for pair in sums for text in pair for word in re.findall(r"[A-Za-z_]\w*|[)(\]\[]", text)}
    return bool(terms - {*numbers})


def divides_bounds(name: str, body: str, sizes: Collection[str]) -> bool:
    """Whether a constant only divides sizes that are bounds, as in `i < n / WIDTH`: accesses have this width then."""
    part = rf"(?:\( )?(?:{'|'.join(map(re.escape, sorted(sizes))) or '-'}) / {name}(?: \))?"
    bound = r"(?<![<>] )(?:< (?:= )?|> = )"
    rest = re.sub(rf"{bound}{part}(?= [;&|)])", "", body)
    for assigned, local in re.findall(rf"\b((\w+) = {part}) ;", rest):
        bare = rest.replace(assigned, "")
        if re.search(rf"\b{local}\b", re.sub(rf"{bound}{local}(?= [;&|)])", "", bare)) is None:
            rest = bare
    return re.search(rf"\b{name}\b", body) is not None and re.search(rf"\b{name}\b", rest) is None


def is_shift_count(names: Collection[str], body: str) -> bool:
    """Whether a number is shifted by an element of an array."""
    return re.search(rf"(?:< <|> >) (?:= )?(?:\( )*{_element(names, body)}", body) is not None


def codes(names: Collection[str], body: str, known: Collection[str]) -> list[str]:
    """The numbers and `known` constants with which the elements of an array are compared for equality, if nothing else
    is done with them."""
    element = _element(names, body)
    constant = rf"((?:\w+ :: )*(?:{'|'.join(map(re.escape, sorted(known))) or '-'})|\d+)\b"
    compared = rf"(?<![-+*/%] ){element} [=!] = {constant}(?! [-+*/%])|\b{constant} [=!] = {element}(?! [-+*/%])"
    found = dict[str, None]()
    rest = re.sub(rf"(?:\b\w+|{element}) = {element} ;|\b(?!return )\w+ {element} ;", "", body)
    for pair in re.findall(compared, rest):
        found |= dict.fromkeys(filter(None, pair))
    if re.search(rf"\bswitch \( {element} \)", rest):
        found |= dict.fromkeys(re.findall(rf"\bcase {constant} :", rest))
    rest = re.sub(rf"\bswitch \( {element} \)", "", re.sub(compared, "", rest))
    return [] if re.search(element, rest) else [each.replace(" ", "") for each in found]


def last_by_number(name: str, number: int, body: str) -> str:
    """The last element of an array of the kernel's own, of which a constant is an extent, if the kernel names it by its
    number, as in `acc[1][1]`: another extent would need other code. Empty if none is named so."""
    for array, extents in re.findall(r"(?<!return )\b[A-Za-z_]\w* (\w+) ((?:\[ [^\[\]]+ \] )+)[;=,]", body):
        names = re.findall(r"\[ ([^\[\]]+) \]", extents)
        for at in (at for at, each in enumerate(names) if each == name and number > 1):
            before = r"\[ [^\[\]]+ \] " * at
            if last := re.search(rf"(?<!\w )\b{array} {before}\[ {number - 1} \]", body):
                return last[0].replace(" ", "")
    return ""


def with_tiles(names: Collection[str], body: str) -> set[str]:
    """The names of an array, with those of arrays to which a kernel only copies its elements, such as a tile."""
    stored = dict[str, list[str]]()
    for name, value in re.findall(rf"\b(\w+) {INDEX} = (?!=)([^;]*) ;", body):
        stored.setdefault(name, []).append(value)
    element = re.compile(rf"(?:{'|'.join(map(re.escape, sorted(names)))}) {INDEX}")
    return {*names, *(name for name, values in stored.items() if all(map(element.fullmatch, values)))}


def is_repetition(name: str, text: str) -> bool:
    """Whether a constant only says how often loops run whose passes replace what the next one reads, as in
    `for (r = 0; r < ROUNDS; r++) x = f(x);` and `while (r < MOST && x < 4) { x = f(x); r++; }`: no index follows from
    the pass."""
    words, count = text.split(" "), 0
    for at in (at for at, word in enumerate(words) if word == name):
        head = _BEGUN_LOOP.search(" ".join([*words[max(0, at - 12) : at], ""]))
        if head is None or words[at + 1] not in (";", "&", ")"):
            return False
        start = matching(words, words.index("(", max(i for i in range(at) if words[i] in ("for", "while")))) + 1
        body = " ".join(words[start : end_of(words, start)])
        body = re.sub(rf"\b{head[1]} \+ \+ ;|\+ \+ {head[1]} ;", ";", body)
        changed = {*re.findall(r"\b(\w+) (?:\. \w+ )?(?:[-+*/%|&^] )?= (?!=)", body)}
        kept = {each for each in changed if re.search(rf"\b{each}\b.*\b{each}\b|\b{each} [-+*/%|&^] =", body)}
        indices = {word for each in re.findall(r"\[[^\[\]]*\]", body) for word in each.split(" ")}
        if head[1] in body.split(" ") or not kept or not kept.isdisjoint(indices) or re.search(r"\* \w+ = ", body):
            return False
        count += 1
    return count > 0


def divides_sizes(name: str, body: str, sizes: Collection[str]) -> bool:
    """Whether sizes are divided by a constant, without being rounded up."""
    return re.search(rf"\b(?:{'|'.join(map(re.escape, sorted(sizes))) or '-'}) / {name}\b", body) is not None


def is_divisor(names: Collection[str], body: str) -> bool:
    """Whether an element of an array is a divisor."""
    return re.search(rf"[/%] {_element(names, body)}", body) is not None


def is_root_or_logarithm(names: Collection[str], body: str) -> bool:
    """Whether a root or logarithm is taken of an element of an array, or of a product with it."""
    element = _element(names, body)
    for call in re.finditer(r"\b(?:\w+_)?(?:r?sqrt|log(?:2|10)?)f? \( ", body):
        words = body[call.end() :].split(" ")
        inner = " ".join(words[: matching(["(", *words], 0) - 1])
        if len(re.findall(element, inner)) == 1 and not re.search(r"abs|exp|max|[-+]", re.sub(INDEX, "", inner)):
            return True
    return False


def _element(names: Collection[str], body: str) -> str:
    """A pattern for an element of an array, or for a local variable that is assigned one."""
    element = rf"(?<!\. )\b(?:{'|'.join(map(re.escape, sorted(names)))}) {INDEX}"
    local = sorted(set(re.findall(rf"\b(\w+) = {element} ;", body)))
    local = [name for name in local if len(re.findall(rf"\b{name} (?:[-+*/%&|^] )?=(?! =)", body)) == 1]
    return rf"(?:{element}|(?<!\. )\b(?:{'|'.join(local)})\b(?! = (?!=)))" if local else element
