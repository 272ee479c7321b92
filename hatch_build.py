"""Build hook: the links of the package, and its README with absolute links."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PAGES = {
    "Homepage": "",
    "Changelog": "/blob/HEAD/CHANGELOG.md",
    "Source": "",
    "Issues": "/issues",
}
"""Pages of the repository that the package index links to."""


class CustomMetadataHook(MetadataHookInterface):
    """Adds links and README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the links and the readme."""
        address = self.config["address"]
        metadata["urls"] = {name: address + page for name, page in PAGES.items()}
        metadata["urls"]["Documentation"] = f"{self.config['site']}/stable/"
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"(!\[[^\]]*\]\()(?!https?:)", rf"\g<1>{address}/raw/HEAD/", text)
        text = re.sub(r"\]\((?!https?:|#)", f"]({address}/blob/HEAD/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
