//! The list of models that a server answers `GET …/models` with.

use serde::Deserialize;

use crate::error::LlmError;

#[derive(Deserialize)]
struct List {
    data: Vec<Model>,
}

#[derive(Deserialize)]
struct Model {
    id: String,
}

/// The ids in the server's order.
pub(super) fn ids(document: &[u8]) -> Result<Vec<String>, LlmError> {
    let list: List = serde_json::from_slice(document)
        .map_err(|error| LlmError::Decode(format!("it is no list of models ({error})")))?;
    Ok(list.data.into_iter().map(|model| model.id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_in_the_servers_order_and_other_fields_ignored() {
        let document = br#"{"object":"list","data":[{"id":"b:1","created":1},{"id":"a"}]}"#;
        assert_eq!(ids(document).unwrap(), ["b:1", "a"]);
        assert!(ids(br#"{"data":[]}"#).unwrap().is_empty());
    }

    #[test]
    fn something_else_is_no_list_of_models() {
        for wrong in [&b"<html>"[..], b"[]", b"{}", br#"{"data":[{"name":"x"}]}"#] {
            assert!(matches!(ids(wrong), Err(LlmError::Decode(_))));
        }
    }
}
