//! The few things about MLX that the rest of the crate should not have to know.

use mlx_rs::{Array, Device, Dtype};
use std::ffi::CStr;
use std::path::Path;

/// What MLX's operations give.
pub type Res<T> = Result<T, mlx_rs::error::Exception>;

/// Where the model runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    Cpu,
    Gpu,
}

/// What the command line may say.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeviceChoice {
    /// The GPU where MLX has one, else the CPU.
    #[default]
    Auto,
    Cpu,
    Gpu,
}

/// What MLX reads from its environment, where nobody has said otherwise.
///
/// - It rounds f32 matrix products on CUDA to TF32, which misses the oracle by five times its tolerance. f16, bf16 and the CPU know no
///   difference.
/// - It cuts a step into CUDA graphs of 20 operations or less; larger ones cost the host less to launch, and one for all leaves the GPU waiting
///   for it (docs/gpu.md has the figures). On Metal the same variables mean something else, and stay as they are.
///
/// # Safety
/// No other thread runs yet.
pub unsafe fn settle_environment() {
    let graphs = [("MLX_MAX_OPS_PER_BUFFER", "60"), ("MLX_MAX_MB_PER_BUFFER", "2000")];
    let graphs = graphs.iter().filter(|_| !cfg!(target_os = "macos"));
    for (name, value) in [("MLX_ENABLE_TF32", "0")].iter().chain(graphs) {
        if std::env::var_os(name).is_none() {
            // SAFETY: the caller's.
            unsafe { std::env::set_var(name, value) };
        }
    }
}

/// Makes a device the default of this process, or says that it is not there.
pub fn choose(choice: DeviceChoice) -> Result<Place, String> {
    let place = match (choice, gpu_available()) {
        (DeviceChoice::Gpu, false) => return Err("--device gpu: MLX has no GPU here; cpu and auto are possible".to_owned()),
        (DeviceChoice::Cpu, _) | (DeviceChoice::Auto, false) => Place::Cpu,
        (DeviceChoice::Gpu | DeviceChoice::Auto, true) => Place::Gpu,
    };
    Device::set_default(&match place {
        Place::Cpu => Device::cpu(),
        Place::Gpu => Device::gpu(),
    });
    Ok(place)
}

pub(crate) fn gpu_available() -> bool {
    let mut yes = false;
    // SAFETY: the device handle is made and freed here, and `yes` outlives the call.
    let status = unsafe {
        let gpu = mlx_sys::mlx_device_new_type(mlx_sys::mlx_device_type__MLX_GPU, 0);
        let status = mlx_sys::mlx_device_is_available(&raw mut yes, gpu);
        mlx_sys::mlx_device_free(gpu);
        status
    };
    status == 0 && yes
}

/// Whether MLX's kernels know this packing; what they do not know is made dense at load.
pub fn has_kernel(bits: usize, group: usize) -> bool {
    matches!(bits, 2 | 3 | 4 | 5 | 6 | 8) && matches!(group, 32 | 64 | 128)
}

/// An array from little-endian bytes of its elements.
pub fn from_bytes(bytes: &[u8], shape: &[i32], dtype: Dtype) -> Array {
    let want: usize = shape.iter().map(|d| *d as usize).product::<usize>() * size_of(dtype);
    assert_eq!(bytes.len(), want, "bytes do not fill shape {shape:?} of {dtype:?}");
    // SAFETY: the buffer has exactly the bytes that shape and type need (asserted), and MLX copies them.
    unsafe { Array::from_raw_data(bytes.as_ptr().cast(), shape, dtype) }
}

fn size_of(dtype: Dtype) -> usize {
    match dtype {
        Dtype::Bool | Dtype::Uint8 | Dtype::Int8 => 1,
        Dtype::Uint16 | Dtype::Int16 | Dtype::Float16 | Dtype::Bfloat16 => 2,
        Dtype::Uint32 | Dtype::Int32 | Dtype::Float32 => 4,
        Dtype::Uint64 | Dtype::Int64 | Dtype::Float64 | Dtype::Complex64 => 8,
    }
}

/// MLX keeps freed memory, to give it out again; from here on so many bytes at most, and none now. It has no bound of its own but the
/// machine's memory: after some hundred steps of different lengths it would hold more than the model does.
pub fn keep_free(bytes_max: u64) -> Res<()> {
    mlx_rs::memory::clear_cache()?;
    mlx_rs::memory::set_cache_limit(bytes_max as usize).map(|_| ())
}

/// Bytes that this process may still take on a device.
pub fn memory_left(place: Place) -> Result<u64, String> {
    match place {
        Place::Cpu => memory_left_cpu(),
        Place::Gpu => memory_left_gpu(),
    }
}

/// Linux's own estimate of what can be taken without swapping (proc(5), MemAvailable), or what is left of the limit that a container has
/// been given (cgroup v2, memory.max), if that is less.
fn memory_left_cpu() -> Result<u64, String> {
    let text = std::fs::read_to_string("/proc/meminfo").map_err(|e| format!("/proc/meminfo cannot be read ({e}): give a size instead of auto"))?;
    let line = text.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().strip_suffix("kB")).and_then(|n| n.trim().parse::<u64>().ok());
    let machine = kib.map(|k| k * 1024).ok_or_else(|| "/proc/meminfo has no MemAvailable: give a size instead of auto".to_owned())?;
    Ok(machine.min(container_left(Path::new("/sys/fs/cgroup"), &std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default())))
}

/// The least that this process's groups, from its own up to the first under `root`, have left; without a limit everything. `groups` is
/// what `/proc/self/cgroup` says.
fn container_left(root: &Path, groups: &str) -> u64 {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    let number = |group: &Path, name| std::fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    let left = |group: &Path| Some(number(group, "memory.max")?.saturating_sub(number(group, "memory.current")?));
    let groups = Path::new(own).ancestors().map(|group| root.join(group));
    groups.filter_map(|group| left(&group)).min().unwrap_or(u64::MAX)
}

/// What CUDA says is free, or what Metal recommends as the most to use, less what MLX has of that already.
fn memory_left_gpu() -> Result<u64, String> {
    if let Some(free) = gpu_size(c"free_memory") {
        return Ok(free);
    }
    let most = gpu_size(c"max_recommended_working_set_size").ok_or("MLX does not say how much memory the GPU has: give a size instead of auto")?;
    let used = mlx_rs::memory::active_memory().map_err(|e| e.what().to_owned())? as u64;
    Ok(most.saturating_sub(used))
}

/// One number that MLX knows of the GPU, if this backend has it.
fn gpu_size(key: &CStr) -> Option<u64> {
    let (mut there, mut value) = (false, 0usize);
    // SAFETY: every handle is made and freed here, and the out pointers outlive the calls that write them.
    unsafe {
        let gpu = mlx_sys::mlx_device_new_type(mlx_sys::mlx_device_type__MLX_GPU, 0);
        let mut info = mlx_sys::mlx_device_info_new();
        let got = mlx_sys::mlx_device_info_get(&raw mut info, gpu) == 0
            && mlx_sys::mlx_device_info_has_key(&raw mut there, info, key.as_ptr()) == 0
            && there
            && mlx_sys::mlx_device_info_get_size(&raw mut value, info, key.as_ptr()) == 0;
        mlx_sys::mlx_device_info_free(info);
        mlx_sys::mlx_device_free(gpu);
        got.then_some(value as u64)
    }
}

/// MLX is for one thread at a time, and tests run on many.
#[cfg(test)]
pub(crate) fn turn() -> std::sync::MutexGuard<'static, ()> {
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    // A test that failed while it held the turn has not harmed it.
    TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tightest_group_bounds_what_is_left() {
        let root = tempfile::tempdir().unwrap();
        let group = |path: &str, max: &str, current: &str| {
            let dir = root.path().join(path);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("memory.max"), max).unwrap();
            std::fs::write(dir.join("memory.current"), current).unwrap();
        };
        let left = |groups: &str| container_left(root.path(), groups);
        assert_eq!(left("0::/\n"), u64::MAX, "no limit anywhere");
        group("a", "1000\n", "300\n");
        group("a/b", "max\n", "200\n");
        group("a/c", "500\n", "600\n");
        for (groups, want) in [("0::/a/b\n", 700), ("0::/a", 700), ("0::/a/c", 0), ("1:memory:/a\n0::/x\n", u64::MAX), ("", u64::MAX)] {
            assert_eq!(left(groups), want, "{groups:?}");
        }
    }
}
