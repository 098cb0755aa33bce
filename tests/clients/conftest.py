"""One service with keys for all who ask it, and one without."""
import pytest

from service import Service, new_key


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Its `key` may all, its `slow_key` one request a minute."""
    folder = tmp_path_factory.mktemp("keys")
    entry, key = new_key("team")
    slow_entry, slow_key = new_key("slow", "requests_per_minute = 1\n")
    (folder / "keys.toml").write_text(entry + slow_entry)
    served = Service(folder, "--keys", str(folder / "keys.toml"))
    served.key, served.slow_key = key, slow_key
    yield served
    assert served.end(), f"the service did not end well:\n{served.log.read_text()[-2000:]}"


@pytest.fixture(scope="session")
def open_service(tmp_path_factory):
    served = Service(tmp_path_factory.mktemp("open"))
    yield served
    assert served.end(), f"the service did not end well:\n{served.log.read_text()[-2000:]}"
