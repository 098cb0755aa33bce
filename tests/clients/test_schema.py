"""schemathesis, told by /openapi.json what may be asked and answered: no 5xx, and nothing that is not written down."""
import os
import pathlib
import subprocess
import sys

from service import Service, new_key
import tiny

FOLDER = pathlib.Path(__file__).parent / "schema"


def test_schema(tmp_path):
    entry, key = new_key("schemathesis")
    keys = tmp_path / "keys.toml"
    keys.write_text(entry)
    service = Service(tmp_path, "--model", str(tiny.make(tmp_path / "model")), "--keys", str(keys))
    try:
        hold(service, key, tmp_path)
    finally:
        ended = service.end()
    assert ended, f"the service did not end well:\n{service.log.read_text()[-2000:]}"


def hold(service, key, folder):
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", FOLDER / "schemathesis.toml", "run", f"{service.url}/openapi.json",
               "--header", f"Authorization: Bearer {key}"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": f"{FOLDER}:{FOLDER.parent}:{os.environ['PYTHONPATH']}"}
    ran = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    print(ran.stdout)
    assert ran.returncode == 0
    service.idle()
