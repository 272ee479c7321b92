"""Build hook: the README for the package index, with absolute links."""

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface


class CustomMetadataHook(MetadataHookInterface):
    """Adds the README, with links relative to the address of the project."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Set the readme."""
        address = metadata["urls"]["Homepage"]
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        text = re.sub(r"\]\((?!https?:|#)", f"]({address}/", text)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
