#!/usr/bin/env python3
"""Makes the wheel with nothing but Python, for machines without a network, and prints its path.
The same every time: `pip wheel .` makes an equal one where setuptools is there."""
import argparse
import base64
import hashlib
import pathlib
import re
import zipfile

HERE = pathlib.Path(__file__).resolve().parent


def record(name, data):
    digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    return f"{name},sha256={digest},{len(data)}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory", nargs="?", default="dist", type=pathlib.Path, help="where it goes (default: dist)")
    out = parser.parse_args().directory
    out.mkdir(parents=True, exist_ok=True)
    project = (HERE / "pyproject.toml").read_text()

    def field(name):
        return re.search(rf'^{name} = "(.*)"$', project, re.M)[1]

    info = f"sallyport-{field('version')}.dist-info"
    metadata = (f"Metadata-Version: 2.1\nName: sallyport\nVersion: {field('version')}\nSummary: {field('description')}\n"
                f"License: Apache-2.0\nRequires-Python: {field('requires-python')}\n"
                f"Description-Content-Type: text/markdown\n\n{(HERE / 'README.md').read_text()}")
    files = {f"sallyport/{path.name}": path.read_bytes()
             for path in sorted((HERE / "sallyport").iterdir()) if path.suffix == ".py" or path.name == "py.typed"}
    files[f"{info}/METADATA"] = metadata.encode()
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nGenerator: build_wheel.py\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    records = "".join(record(name, data) for name, data in files.items()) + f"{info}/RECORD,,\n"
    files[f"{info}/RECORD"] = records.encode()
    target = out / f"sallyport-{field('version')}-py3-none-any.whl"
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in files.items():
            wheel.writestr(zipfile.ZipInfo(name), data)
    print(target)


if __name__ == "__main__":
    main()
