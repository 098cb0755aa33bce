//! Whole folders and files of weights: what is opened, and what is refused before a tensor is read.

mod folder;
mod gguf;

use serde_json::Value;

/// `json` with each value in it in turn replaced by one that is out of place, or taken out of its object.
pub(crate) fn damaged(json: &Value) -> Vec<Value> {
    let odd = [
        Value::Null,
        true.into(),
        (-1).into(),
        0.into(),
        u64::MAX.into(),
        1e300.into(),
        "".into(),
        "x\n".into(),
        Vec::<Value>::new().into(),
        serde_json::json!({}),
    ];
    let mut out = odd.to_vec();
    match json {
        Value::Object(map) => {
            for (key, value) in map {
                let put = |v: Option<Value>| {
                    let mut map = map.clone();
                    match v {
                        Some(v) => map.insert(key.clone(), v),
                        None => map.remove(key),
                    };
                    Value::Object(map)
                };
                out.extend(damaged(value).into_iter().map(Some).chain([None]).map(put));
            }
        }
        Value::Array(list) => {
            for (i, value) in list.iter().enumerate() {
                out.extend(damaged(value).into_iter().map(|v| {
                    let mut list = list.clone();
                    list[i] = v;
                    Value::Array(list)
                }));
            }
        }
        _ => {}
    }
    out
}
