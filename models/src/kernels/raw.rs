//! MLX's interface to kernels written by others: the same calls under two names, one for CUDA and one for Metal.

use super::source::{Kind, Text};
use crate::mlx::Res;
use mlx_rs::error::Exception;
use mlx_rs::{Array, Dtype, Stream};
use std::ffi::{CStr, CString, c_int};

#[cfg(not(target_os = "macos"))]
use mlx_sys::{
    mlx_fast_cuda_kernel as Handle, mlx_fast_cuda_kernel_apply as apply, mlx_fast_cuda_kernel_config as ConfigHandle,
    mlx_fast_cuda_kernel_config_add_output_arg as add_output, mlx_fast_cuda_kernel_config_add_template_arg_dtype as add_dtype,
    mlx_fast_cuda_kernel_config_add_template_arg_int as add_int, mlx_fast_cuda_kernel_config_free as config_free,
    mlx_fast_cuda_kernel_config_new as config_new, mlx_fast_cuda_kernel_config_set_grid as set_grid,
    mlx_fast_cuda_kernel_config_set_thread_group as set_thread_group, mlx_fast_cuda_kernel_free as free, mlx_fast_cuda_kernel_new as new,
};
#[cfg(target_os = "macos")]
use mlx_sys::{
    mlx_fast_metal_kernel as Handle, mlx_fast_metal_kernel_apply as apply, mlx_fast_metal_kernel_config as ConfigHandle,
    mlx_fast_metal_kernel_config_add_output_arg as add_output, mlx_fast_metal_kernel_config_add_template_arg_dtype as add_dtype,
    mlx_fast_metal_kernel_config_add_template_arg_int as add_int, mlx_fast_metal_kernel_config_free as config_free,
    mlx_fast_metal_kernel_config_new as config_new, mlx_fast_metal_kernel_config_set_grid as set_grid,
    mlx_fast_metal_kernel_config_set_thread_group as set_thread_group, mlx_fast_metal_kernel_free as free, mlx_fast_metal_kernel_new as new,
};

/// CUDA takes bytes of dynamic shared memory last, Metal whether outputs are atomic: they never are. Metal's kernels say themselves how
/// much they share.
#[cfg(not(target_os = "macos"))]
fn last(shared: i32) -> c_int {
    shared
}
#[cfg(target_os = "macos")]
fn last(_shared: i32) -> bool {
    false
}

/// A kernel that MLX knows and compiles on first use.
#[derive(Debug)]
pub(super) struct Kernel(Handle);

/// How a kernel is launched: made once a step, used by every layer.
#[derive(Debug)]
pub(super) struct Config(ConfigHandle);

/// A grid in threads, and a threadgroup.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Grid {
    pub(super) threads: [i32; 3],
    pub(super) group: i32,
}

fn refused(what: &str) -> Exception {
    Exception::custom(format!("MLX refused {what} a kernel"))
}

impl Kernel {
    pub(super) fn new(kind: Kind) -> Res<Kernel> {
        Kernel::sharing(kind, 0)
    }

    /// Whose threadgroups share so many bytes beside those that the text declares. Above 48,000 MLX asks CUDA for more than the 48 KiB of
    /// both together that it gives unasked.
    pub(super) fn sharing(kind: Kind, shared: i32) -> Res<Kernel> {
        // mlx-rs has MLX's errors given to it from its first operation on; before that MLX ends the process on one.
        Array::from_f32(0.0).as_dtype(Dtype::Float16)?;
        let text = Text::of(kind);
        let c = |s: String| CString::new(s).map_err(|e| Exception::custom(e.to_string()));
        let (name, header, source) = (c(text.name)?, c(text.header)?, c(text.source)?);
        let (inputs, outputs) = (Names::of(kind.inputs())?, Names::of(kind.outputs())?);
        // Bodies that take a pool read k, v and q by their strides where these may be views.
        // SAFETY: every pointer outlives the call, which copies what it needs.
        let handle = unsafe { new(name.as_ptr(), inputs.0, outputs.0, source.as_ptr(), header.as_ptr(), kind.wants_contiguous(), last(shared)) };
        if handle.ctx.is_null() { Err(refused("making")) } else { Ok(Kernel(handle)) }
    }

    /// Puts a launch into the graph; compiling errors come when its outputs are evaluated.
    ///
    /// # Safety
    /// With these inputs and this configuration the kernel reads and writes inside its inputs and outputs only, and fills what is read.
    pub(super) unsafe fn apply(&self, inputs: &[&Array], config: &Config) -> Res<Vec<Array>> {
        let handles: Vec<mlx_sys::mlx_array> = inputs.iter().map(|a| a.as_ptr()).collect();
        let stream = Stream::gpu();
        // SAFETY: handles are alive during the call and MLX takes references of its own; what is made here is freed here, except the
        // arrays that the caller gets.
        unsafe {
            let inputs = mlx_sys::mlx_vector_array_new_data(handles.as_ptr(), handles.len());
            let mut made = mlx_sys::mlx_vector_array_new();
            let status = apply(&raw mut made, self.0, inputs, config.0, stream.as_ptr());
            mlx_sys::mlx_vector_array_free(inputs);
            let mut out = Vec::new();
            if status == 0 {
                for i in 0..mlx_sys::mlx_vector_array_size(made) {
                    let mut one = mlx_sys::mlx_array_new();
                    if mlx_sys::mlx_vector_array_get(&raw mut one, made, i) == 0 {
                        out.push(Array::from_ptr(one));
                    }
                }
            }
            mlx_sys::mlx_vector_array_free(made);
            if out.is_empty() { Err(refused("launching")) } else { Ok(out) }
        }
    }
}

impl Drop for Kernel {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once; launches in a graph hold what they need of it.
        unsafe { free(self.0) };
    }
}

impl Config {
    /// Outputs, the type `T`, and the other constants in their order.
    pub(super) fn new(grid: Grid, outputs: &[(&[i32], Dtype)], dtype: Dtype, constants: &[(&CStr, i32)]) -> Res<Config> {
        // SAFETY: the handle is this value's own; shapes and names outlive the calls, which copy them.
        unsafe {
            let config = Config(config_new());
            if config.0.ctx.is_null() {
                return Err(refused("configuring"));
            }
            let [x, y, z] = grid.threads;
            let mut failed = set_grid(config.0, x, y, z) | set_thread_group(config.0, grid.group, 1, 1);
            for (shape, dtype) in outputs {
                failed |= add_output(config.0, shape.as_ptr(), shape.len(), (*dtype).into());
            }
            failed |= add_dtype(config.0, c"T".as_ptr(), dtype.into());
            for (name, value) in constants {
                failed |= add_int(config.0, name.as_ptr(), *value);
            }
            if failed == 0 { Ok(config) } else { Err(refused("configuring")) }
        }
    }
}

impl Drop for Config {
    fn drop(&mut self) {
        // SAFETY: made by `new` and freed once.
        unsafe { config_free(self.0) };
    }
}

/// MLX's vector of strings.
struct Names(mlx_sys::mlx_vector_string);

impl Names {
    fn of(names: &[&str]) -> Res<Names> {
        let owned: Vec<CString> = names.iter().map(|n| CString::new(*n)).collect::<Result<_, _>>().map_err(|e| Exception::custom(e.to_string()))?;
        let mut pointers: Vec<*const std::ffi::c_char> = owned.iter().map(|n| n.as_ptr()).collect();
        // SAFETY: MLX copies each string during the call.
        let raw = unsafe { mlx_sys::mlx_vector_string_new_data(pointers.as_mut_ptr(), pointers.len()) };
        if raw.ctx.is_null() { Err(refused("naming")) } else { Ok(Names(raw)) }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        // SAFETY: made by `of` and freed once.
        unsafe { mlx_sys::mlx_vector_string_free(self.0) };
    }
}
