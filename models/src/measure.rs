//! What a model will take, from its headers: no matrix is read, and nothing is put on a device.

use crate::config::Config;
use crate::engine::EngineError;
use crate::families;
use crate::mlx::{self, Place};
use crate::mlx_engine::{self, OpenOptions};
use crate::weights::{self, Float, Loader};
use kv::Geometry;

/// A model that was not loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub config: Config,
    pub place: Place,
    /// The type of activations, and of K and V.
    pub float: Float,
    /// Weights, once they are loaded.
    pub weight_bytes: u64,
    /// A token's and a block's K and V.
    pub geometry: Geometry,
}

impl Measured {
    /// Reads what [`mlx_engine::Opened::open`] would read but for matrices, with the same choices of device and type, and fails as it would.
    pub fn open(o: &OpenOptions) -> Result<Measured, EngineError> {
        let place = mlx::choose(o.device).map_err(|reason| EngineError::Load { file: o.path.clone(), reason })?;
        let (config, source) = weights::open(&o.path)?;
        let loader = Loader::new(source.as_ref(), mlx_engine::dense(o, place), place)?;
        let weight_bytes = families::weight_bytes(&config, &loader)?;
        let geometry = config.geometry(loader.float.bytes() as u32);
        Ok(Measured { place, float: loader.float, weight_bytes, geometry, config })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mlx::DeviceChoice;
    use crate::model::Model;
    use std::path::Path;

    /// Every tiny model takes what was measured, in each type, and as stored.
    #[test]
    fn a_loaded_model_takes_what_was_measured() {
        let _turn = crate::mlx::turn();
        let mut seen = 0;
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tiny")).unwrap() {
            let path = entry.unwrap().path();
            if !path.is_dir() {
                continue;
            }
            for dense in [None, Some(Float::F32), Some(Float::F16), Some(Float::BF16)] {
                let (config, source) = weights::open(&path).unwrap();
                let loader = Loader::new(source.as_ref(), dense, Place::Cpu).unwrap();
                let (bytes, block) = (families::weight_bytes(&config, &loader).unwrap(), config.geometry(loader.float.bytes() as u32).block_bytes());
                let model = Model::load(config, source.as_ref(), dense, Place::Cpu).unwrap();
                assert_eq!((bytes, block), (model.weight_bytes(), model.block_bytes()), "{} in {dense:?}", path.display());
                seen += 1;
            }
            let open = OpenOptions { path, name: None, device: DeviceChoice::Cpu, dtype: None };
            assert_eq!(Measured::open(&open).unwrap().float, Float::F32);
        }
        assert!(seen >= 36, "{seen}");
    }
}
