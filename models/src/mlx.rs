//! The few things about MLX that the rest of the crate should not have to know.

use mlx_rs::{Array, Device, Dtype};

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

fn gpu_available() -> bool {
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
