//! How many connections may be open: no more than the process has descriptors for, with some left for everything else.

use std::io;

/// Descriptors that are not connections: listeners, model files, threads' pipes, a scrape of the metrics.
const OTHERS: u64 = 64;
/// More than any team has clients.
const CONNECTIONS_MAX: u64 = 20_000;

/// Raises this process's limit of open descriptors as far as it may, and gives how many connections that allows.
pub(crate) fn connections() -> io::Result<usize> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the struct outlives both calls, which read or write nothing else.
    let got = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    if got != 0 {
        return Err(io::Error::last_os_error());
    }
    let wanted = limit.rlim_max.min(CONNECTIONS_MAX + OTHERS).max(limit.rlim_cur);
    let raised = libc::rlimit { rlim_cur: wanted, ..limit };
    // SAFETY: as above.
    let set = unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) };
    // Where it may not be raised (macOS has a second limit), what there is must do.
    let have = if set == 0 { wanted } else { limit.rlim_cur };
    Ok(have.saturating_sub(OTHERS).clamp(1, CONNECTIONS_MAX) as usize)
}
