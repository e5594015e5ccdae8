"""What notebooks show."""

import html


def table(title, heads, rows):
    """A small table of HTML."""
    cells = lambda kind, row: "".join(f"<{kind} style='text-align:left'>{html.escape(str(c))}</{kind}>" for c in row)
    body = "".join(f"<tr>{cells('td', row)}</tr>" for row in rows)
    return f"<p>{html.escape(title)}</p><table><thead><tr>{cells('th', heads)}</tr></thead><tbody>{body}</tbody></table>"


def text(content):
    return f"<pre>{html.escape(str(content))}</pre>"
