"""Installed plugins that tests make up."""


def distribution(folder, name, entry_points, group="fim_dynsys.models"):
    """A distribution as an installer leaves it: metadata only."""
    info = folder / f"{name.replace('-', '_')}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    lines = "".join(f"{key} = {value}\n" for key, value in entry_points.items())
    (info / "entry_points.txt").write_text(f"[{group}]\n{lines}")


def module(folder, name, text):
    """A file that can be imported."""
    (folder / f"{name}.py").write_text(text)
