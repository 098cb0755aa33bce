"""The chat templates of llama.cpp, from the source package of llama-cpp-python (MIT), which is 77 MB: kept, and fetched once.

Fetched as a file and not through pip, which would run the package's build to learn its name. Prints the folder they are in.

usage: fetch.py FOLDER
"""

import hashlib, json, os, shutil, sys, tarfile, tempfile, urllib.parse, urllib.request

NAME = "llama_cpp_python-0.3.36.tar.gz"
SHA256 = "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e"
INSIDE = "/vendor/llama.cpp/models/templates/"
INDEX = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")


def opened(url, accept="*/*"):
    return urllib.request.urlopen(urllib.request.Request(url, headers={"Accept": accept}), timeout=120)


def download(to):
    page = INDEX + "/llama-cpp-python/"
    with opened(page, "application/vnd.pypi.simple.v1+json") as answer:
        page = answer.url
        files = json.load(answer)["files"]
    url = next((f["url"] for f in files if f["filename"] == NAME), None)
    if url is None:
        raise SystemExit(f"templates: {page} has no {NAME}")
    digest = hashlib.sha256()
    with opened(urllib.parse.urljoin(page, url)) as answer:
        while piece := answer.read(1 << 20):
            digest.update(piece)
            to.write(piece)
    if digest.hexdigest() != SHA256:
        raise SystemExit(f"templates: {NAME} has sha256 {digest.hexdigest()}, not {SHA256}")
    to.seek(0)


def main(home):
    folder = os.path.join(home, "templates", SHA256[:16])
    if os.path.isdir(folder):
        return folder
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    print(f"templates: downloading {NAME} (77 MB)", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=os.path.dirname(folder)) as work:
        part = os.path.join(work, "part")
        os.mkdir(part)
        with tempfile.TemporaryFile(dir=work) as archive:
            download(archive)
            with tarfile.open(fileobj=archive) as tar:
                for member in tar:
                    name = member.name.partition(INSIDE)[2]
                    if member.isfile() and name.endswith(".jinja") and "/" not in name:
                        with tar.extractfile(member) as source, open(os.path.join(part, name), "wb") as copy:
                            shutil.copyfileobj(source, copy)
        # Last, and in one step: a folder that is there is whole.
        os.rename(part, folder)
    return folder


print(main(sys.argv[1]))
