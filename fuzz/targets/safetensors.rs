//! The header of a safetensors file. The first eight bytes say how long the data behind it is, as the file's length does.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((data, head)) = bytes.split_first_chunk() else { return };
    let data = u64::from_le_bytes(*data);
    let Ok(tensors) = models::header::tensors(head, data) else { return };
    let mut end = 0;
    for (name, info) in tensors {
        assert_eq!(info.data_offsets.0, end, "{name} begins where the one before it ended");
        end = info.data_offsets.1;
    }
    assert_eq!(end as u64, data, "all bytes are of a tensor");
});
