//! How many requests may be in flight: each has a connection, and a process has a limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are not connections: standard streams, the runtime's, those being read or written.
const OTHERS: usize = 64;

/// Where there is no limit: more than there are ports to connect from.
const ENOUGH: u64 = 65_536;

/// What macOS allows whatever the limit says.
const OPEN_MAX: u64 = 10_240;

/// Raises this process's limit of open files as far as it may, and gives how many connections that allows.
pub fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let current = limit.current.unwrap_or(ENOUGH);
    let most = limit.maximum.unwrap_or(ENOUGH);
    let raise = |to: u64| to > current && setrlimit(Resource::Nofile, Rlimit { current: Some(to), maximum: limit.maximum }).is_ok();
    let have = [most, OPEN_MAX.min(most)].into_iter().find(|&to| raise(to)).unwrap_or(current);
    usize::try_from(have).unwrap_or(usize::MAX).saturating_sub(OTHERS).max(1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn what_is_allowed_is_never_less_than_before() {
        let first = super::connections_max();
        assert!(first >= 1 && super::connections_max() >= first);
    }
}
