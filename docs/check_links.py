"""Every link of the built site that leads into it: python docs/check_links.py docs/_build/html."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page links to and loads, and the anchors it has."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Called by `feed`."""
        found = dict(attrs)
        self.anchors |= {value for name in ("id", "name") if (value := found.get(name))}
        self.links += [value for name in ("href", "src") if (value := found.get(name))]


def broken(site: Path) -> list[str]:
    """Page and target of each link into the site that leads nowhere."""
    site = site.resolve()
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]  # the theme's own
    pages = {path: _Page(path) for path in paths}
    found = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            anchor = unquote(parts.fragment)
            missing = anchor and target in pages and anchor not in pages[target].anchors
            if not target.exists() or missing:
                found.append(f"{path.relative_to(site)}: {link}")
    return found


def main() -> int:
    """Print what is broken; the exit status is 1 where anything is."""
    found = broken(Path(sys.argv[1]))
    print("\n".join([*found, f"{len(found)} broken links"]))
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
