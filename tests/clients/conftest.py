"""One service with keys for all who ask it, and one without."""
import pytest

from service import Service, new_key


@pytest.fixture(scope="session")
def service(tmp_path_factory):
    """Its `key` and `other_key` may all; each of `slow_keys` has one request a minute."""
    folder = tmp_path_factory.mktemp("keys")
    entry, key = new_key("team")
    other_entry, other_key = new_key("other")
    slow = [new_key(f"slow {i}", "requests_per_minute = 1\n") for i in range(2)]
    (folder / "keys.toml").write_text(entry + other_entry + "".join(entry for entry, _ in slow))
    served = Service(folder, "--keys", str(folder / "keys.toml"))
    served.key, served.other_key, served.slow_keys = key, other_key, [key for _, key in slow]
    yield served
    assert served.end(), f"the service did not end well:\n{served.log.read_text()[-2000:]}"


@pytest.fixture(scope="session")
def open_service(tmp_path_factory):
    served = Service(tmp_path_factory.mktemp("open"))
    yield served
    assert served.end(), f"the service did not end well:\n{served.log.read_text()[-2000:]}"
