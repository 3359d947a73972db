"""Arithmetic of kernel command lines: which parameters are in force, and a line with others in force.

Pure and standard library only. The rules are the kernel's own (Documentation/admin-guide/kernel-parameters.rst,
kernel/params.c): spaces separate, double quotes keep spaces together, `-` and `_` in names are the same,
the last of several values wins, and what follows ` -- ` belongs to init.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

# Values of these are comma lists whose items are settings of their own, and every occurrence on the line counts
# (arch/x86/kernel/pci-dma.c iommu_setup, drivers/pci/pci.c pci_setup and the two vendors' IOMMU drivers).
LIST_PARAMETERS = frozenset({"pci", "iommu", "intel_iommu", "amd_iommu"})
# Items of one list that are two values of one setting.
_ALTERNATIVES = {("iommu", "nopt"): "pt", ("pci", "norealloc"): "realloc"}

Span = tuple[int, int]


def split(line: str) -> list[str]:
    """The words of a command line, each with its quotes as they are written."""
    words: list[str] = []
    word = ""
    quoted = False
    for character in line:
        if character == '"':
            quoted = not quoted
        if character.isspace() and not quoted:
            if word:
                words.append(word)
            word = ""
        else:
            word += character
    return [*words, word] if word else words


def kernel_words(words: Sequence[str]) -> list[str]:
    """The words that the kernel reads: all before a lone `--`."""
    return list(words[: words.index("--")]) if "--" in words else list(words)


def name(word: str) -> str:
    """A parameter's name, in the one spelling of the two that the kernel takes for the same."""
    return word.strip('"').partition("=")[0].replace("-", "_")


def value(word: str) -> str | None:
    """A parameter's value without quotes; None for a flag."""
    _, equals, text = word.strip('"').partition("=")
    return text.strip('"') if equals else None


def _setting(parameter: str, item: str) -> str:
    """Which setting of a list parameter an item is about: `realloc=off` and `realloc` are about the same."""
    own = item.partition("=")[0]
    return _ALTERNATIVES.get((parameter, own), own)


def settings(word: str) -> dict[tuple[str, str], str | None]:
    """What a word sets: (name, item's setting or "") → the text that sets it."""
    parameter, text = name(word), value(word)
    if parameter not in LIST_PARAMETERS or not text:
        return {(parameter, ""): text}
    return {(parameter, _setting(parameter, item)): item for item in text.split(",") if item}


def effective(words: Iterable[str]) -> dict[tuple[str, str], str | None]:
    """What is in force after all words: of several values of one setting, the last."""
    return {key: text for word in words for key, text in settings(word).items()}


def missing(line: str, wanted: Sequence[str]) -> list[str]:
    """Those of `wanted` (words like `iommu=pt`) that are not in force on a command line."""
    present = effective(kernel_words(split(line)))
    return [word for word in wanted if any(present.get(key, "") != text for key, text in settings(word).items())]


def obsolete_spans(word: str, wanted: Sequence[str], absent: Sequence[str] = ()) -> list[Span]:
    """The character ranges of `word` that contradict `wanted` or are named by `absent`.

    The whole word for an ordinary parameter; for a list parameter only the items, so that
    `pci=nommconf,realloc=on` loses `,realloc=on` alone.
    """
    everything = [(0, len(word))]
    if any(name(word) == name(gone) and value(gone) in (None, value(word)) for gone in absent):
        return everything
    target = effective(wanted)
    if name(word) not in LIST_PARAMETERS or not value(word):
        key = (name(word), "")
        return everything if key in target and target[key] != value(word) else []
    unwanted = {text for gone in absent if name(gone) == name(word) for text in (value(gone) or "").split(",")}

    def keep(item: str) -> bool:
        key = (name(word), _setting(name(word), item))
        return item not in unwanted and target.get(key, item) == item

    return _item_spans(word, keep)


def _item_spans(word: str, keep: Callable[[str], bool]) -> list[Span]:
    """Ranges of the items that are not kept, each with one comma; the whole word when no item is kept."""
    start = word.index("=") + 1
    spans: list[Span] = []
    end_of_kept: int | None = None
    for item in word[start:].split(","):
        end = start + len(item)
        if keep(item.strip('"')):
            end_of_kept = end
        else:  # quotes around the list stay
            spans.append((start + item.startswith('"'), min(end + 1, len(word)) - item.endswith('"')))
        start = end + 1
    if end_of_kept is None:
        return [(0, len(word))]
    if spans and spans[-1][0] > end_of_kept:  # the comma after what is now the last item
        spans.append((end_of_kept, end_of_kept + 1))
    return spans


def cut(text: str, spans: Sequence[Span]) -> str:
    """`text` without the given character ranges."""
    gone = {position for start, end in spans for position in range(start, end)}
    return "".join(character for position, character in enumerate(text) if position not in gone)


def with_parameters(line: str, wanted: Sequence[str], absent: Sequence[str] = ()) -> str:
    """A command line with `wanted` in force and `absent` gone; all else keeps its order.

    Words that say what is wanted stay where they are and new ones go to the end, before a `--`, so that a
    second call changes nothing.
    """
    words = split(line)
    own, rest = kernel_words(words), words[len(kernel_words(words)) :]
    kept = [left for word in own if (left := cut(word, obsolete_spans(word, wanted, absent)))]
    unique = [word for position, word in enumerate(kept) if word not in wanted or word not in kept[:position]]
    return " ".join([*unique, *missing(" ".join(unique), wanted), *rest])


def contradictions(wanted: Sequence[str]) -> list[str]:
    """Those of `wanted` that another of them overrules; such a set cannot be in force."""
    return missing(" ".join(wanted), wanted)
