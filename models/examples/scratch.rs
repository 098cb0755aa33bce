//! The command line: parses, composes, and nothing else.
fn main() {
    let dirs: Vec<String> = std::env::args().skip(2).collect();
    for d in dirs {
        match models::check::check(std::path::Path::new(&d), models::mlx::DeviceChoice::Cpu, None) {
            Ok(lines) => lines.iter().for_each(|l| println!("{d} {l}")),
            Err(e) => println!("{d}: {e}"),
        }
    }
}
