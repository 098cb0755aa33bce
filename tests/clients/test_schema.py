"""schemathesis, told by /openapi.json what may be asked and answered: no 5xx, and nothing that is not written down."""
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).parent / "schema"


def test_schema(service, tmp_path):
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", FOLDER / "schemathesis.toml", "run", f"{service.url}/openapi.json",
               "--header", f"Authorization: Bearer {service.key}"]
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": f"{FOLDER}:{os.environ['PYTHONPATH']}"}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=900)
    print(ran.stdout)
    assert ran.returncode == 0
    service.idle()
