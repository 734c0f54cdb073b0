"""For mkdocs: the pictures lie beside docs/, where forges find them; in the site they lie inside."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, config: Any) -> Files:
    docs = Path(config.config_file_path).parent
    for picture in sorted((docs.parent / "screenshots").iterdir()):
        files.append(File.generated(config, f"screenshots/{picture.name}", abs_src_path=str(picture)))
    files.append(File.generated(config, "grafana.json", abs_src_path=str(docs / "grafana.json")))
    return files


def on_page_markdown(markdown: str, **_others: Any) -> str:
    return markdown.replace("](../../screenshots/", "](../screenshots/")
