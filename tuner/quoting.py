"""Texts of users in messages: quoted, shortened, and without control characters."""

MOST_SHOWN = 400  # characters of a name or value in a message


def shown(text: object, most: int = MOST_SHOWN) -> str:
    """`text`, such as a file's name, for a message: without control sequences of a terminal, and of `most` characters
    at most."""
    line = plain(text, keep="")
    return line if len(line) <= most else f"{line[: most - 203]}...{line[-200:]}"


def quoted(value: object) -> str:
    """A value that a user or a file gave, as Python writes it, for a message."""
    try:
        return shown(repr(value))
    except ValueError:  # Python writes no integer of thousands of digits
        return "a number of thousands of digits"


def plain(text: object, keep: str = "\n\t") -> str:
    """`text` with `?` for each character that is neither printable nor in `keep`: control characters, marks of text
    direction, lone surrogates."""
    return "".join(c if c.isprintable() or c in keep else "?" for c in str(text))
