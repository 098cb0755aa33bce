//! How many requests may be in flight: each has a connection, and a process has a limit of open files.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that are not connections: standard streams, the runtime's, those being read or written.
const OTHERS: usize = 64;

/// Raises this process's limit of open files as far as it may, and gives how many connections that allows.
pub fn connections_max() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let Some(maximum) = limit.maximum else { return usize::MAX };
    let raised = setrlimit(Resource::Nofile, Rlimit { current: Some(maximum), maximum: Some(maximum) });
    // Where it may not be raised (macOS has a second limit), what there is must do.
    let have = if raised.is_ok() { maximum } else { limit.current.unwrap_or(maximum) };
    usize::try_from(have).unwrap_or(usize::MAX).saturating_sub(OTHERS).max(1)
}

#[cfg(test)]
mod tests {
    #[test]
    fn some_connections_are_always_allowed() {
        assert!(super::connections_max() >= 1);
    }
}
