//! Events: what was seen at a step.

use crate::graph::Graph;
use crate::histogram::Histogram;
use crate::image::Image;
use crate::tensor::Array;
use crate::wire::{Field, Fields, Malformed, Message};
use std::time::{SystemTime, UNIX_EPOCH};

/// The content of one record.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, in seconds since 1970.
    pub wall_time: f64,
    /// At which step.
    pub step: i64,
    /// What.
    pub content: Content,
}

/// What an event tells.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// The version of the file, in its first record.
    Version(String),
    /// Values by name.
    Values(Vec<Value>),
    /// The graph of the run.
    Graph(Graph),
    /// What this crate does not write.
    Other,
}

/// A value by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Value {
    /// Its name; slashes group.
    pub tag: String,
    /// Whose it is, of values that a part of TensorBoard shows in its own way.
    pub plugin: Option<Plugin>,
    /// The value.
    pub data: Data,
}

/// Whose a value is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plugin {
    /// The part of TensorBoard.
    pub name: String,
    /// What it says about the value.
    pub content: Vec<u8>,
}

/// What a value is.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// A number.
    Scalar(f32),
    /// How often values lie where.
    Histogram(Histogram),
    /// A picture.
    Image(Image),
    /// Elements.
    Tensor(Array),
    /// What this crate does not write.
    Other,
}

/// The version of files.
pub(crate) const VERSION: &str = "brain.Event:2";

impl Value {
    /// A value by name.
    pub fn new(tag: impl Into<String>, data: Data) -> Value {
        Value {
            tag: tag.into(),
            plugin: None,
            data,
        }
    }
}

/// Seconds since 1970.
pub(crate) fn seconds() -> f64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map(|time| time.as_secs_f64()).unwrap_or_default()
}

impl Event {
    /// Values that are seen now.
    pub fn now(step: i64, values: Vec<Value>) -> Event {
        Event::of(step, Content::Values(values))
    }

    /// What is told now.
    pub fn of(step: i64, content: Content) -> Event {
        Event {
            wall_time: seconds(),
            step,
            content,
        }
    }

    /// As bytes of a record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let event = Message::new().double(1, self.wall_time).int(2, self.step);
        let event = match &self.content {
            Content::Version(version) => event.text(3, version),
            Content::Graph(graph) => event.bytes(4, &graph.encode().into_bytes()),
            Content::Values(values) => event.message(
                5,
                Message::new().each(values, |summary, value| summary.message(1, value.encode())),
            ),
            Content::Other => event,
        };
        event.into_bytes()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Event, Malformed> {
        let mut event = Event {
            wall_time: 0.0,
            step: 0,
            content: Content::Other,
        };
        for field in Fields::new(bytes) {
            match field? {
                (1, time) => event.wall_time = time.double()?,
                (2, step) => event.step = step.int()?,
                (3, version) => event.content = Content::Version(version.text()?),
                (4, graph) => event.content = Content::Graph(Graph::decode(graph.bytes()?)?),
                (5, summary) => event.content = Content::Values(values(summary.bytes()?)?),
                _ => {}
            }
        }
        Ok(event)
    }
}

fn values(summary: &[u8]) -> Result<Vec<Value>, Malformed> {
    let mut values = Vec::new();
    for field in Fields::new(summary) {
        if let (1, value) = field? {
            values.push(Value::decode(value.bytes()?)?);
        }
    }
    Ok(values)
}

impl Value {
    fn encode(&self) -> Message {
        let value = Message::new().text(1, &self.tag);
        let value = match &self.data {
            Data::Scalar(number) => value.float(2, *number),
            Data::Image(image) => value.message(4, image.encode()),
            Data::Histogram(histogram) => value.message(5, histogram.encode()),
            Data::Tensor(array) => value.message(8, array.encode()),
            Data::Other => value,
        };
        match &self.plugin {
            Some(Plugin { name, content }) => {
                let plugin = Message::new().text(1, name).bytes(2, content);
                value.message(9, Message::new().message(1, plugin))
            }
            None => value,
        }
    }

    fn decode(bytes: &[u8]) -> Result<Value, Malformed> {
        let mut value = Value::new("", Data::Other);
        let mut texts = Vec::new();
        for field in Fields::new(bytes) {
            match field? {
                (1, tag) => value.tag = tag.text()?,
                (2, number) => value.data = Data::Scalar(number.float()?),
                (4, image) => value.data = Data::Image(Image::decode(image.bytes()?)?),
                (5, histogram) => value.data = Data::Histogram(Histogram::decode(histogram.bytes()?)?),
                (8, array) => {
                    texts = Array::texts(array.bytes()?)?;
                    value.data = Array::decode(array.bytes()?)?.map_or(Data::Other, Data::Tensor);
                }
                (9, metadata) => value.plugin = plugin(metadata)?,
                _ => {}
            }
        }
        if value
            .plugin
            .as_ref()
            .is_some_and(|plugin| plugin.name == "images")
            && let Some(image) = Image::of_texts(&texts)
        {
            value.data = Data::Image(image);
        }
        Ok(value)
    }
}

fn plugin(metadata: Field<'_>) -> Result<Option<Plugin>, Malformed> {
    let mut plugin = None;
    for field in Fields::new(metadata.bytes()?) {
        let (1, data) = field? else { continue };
        let (mut name, mut content) = (String::new(), Vec::new());
        for field in Fields::new(data.bytes()?) {
            match field? {
                (1, text) => name = text.text()?,
                (2, bytes) => content = bytes.bytes()?.to_vec(),
                _ => {}
            }
        }
        plugin = Some(Plugin { name, content });
    }
    Ok(plugin)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An event with everything.
    fn whole() -> Vec<u8> {
        let graph = Graph {
            nodes: vec![crate::Node {
                name: "a/b".into(),
                op: "add".into(),
                inputs: vec!["x".into()],
                device: "cpu:0".into(),
                shape: vec![2, 3],
                attributes: vec![("place".into(), "net.rs:1".into())],
            }],
        };
        let values = vec![
            Value::new("loss", Data::Scalar(0.5)),
            Value::new("h", Data::Histogram(Histogram::of([1.0, 2.0]))),
            Value::new("t", Data::Tensor(Array::scalar(1.0))),
            crate::hparams::session_start(&[("a".into(), crate::hparams::Setting::Flag(true))], "g"),
        ];
        let events = [
            Event::of(1, Content::Graph(graph)),
            Event::of(2, Content::Values(values)),
        ];
        for event in &events {
            assert_eq!(Event::decode(&event.encode()).as_ref(), Ok(event));
        }
        events.iter().flat_map(Event::encode).collect()
    }

    /// Other writers note texts as tensors of texts.
    #[test]
    fn tensors_of_texts_do_not_end_a_file() {
        let texts = Message::new().int(1, 7).bytes(8, b"a text");
        let value = Message::new().text(1, "note").message(8, texts);
        let event = Message::new()
            .int(2, 3)
            .message(5, Message::new().message(1, value));
        let wanted = Event {
            wall_time: 0.0,
            step: 3,
            content: Content::Values(vec![Value::new("note", Data::Other)]),
        };
        assert_eq!(Event::decode(&event.into_bytes()), Ok(wanted));
    }

    /// Newer writers note pictures as tensors of texts.
    #[test]
    fn pictures_as_texts_are_pictures() {
        let read = |plugin: &str, texts: &[&[u8]]| {
            let tensor = Message::new()
                .int(1, 7)
                .each(texts, |tensor, text| tensor.bytes(8, text));
            let owner = Message::new().message(1, Message::new().text(1, plugin));
            let value = Message::new().text(1, "p").message(8, tensor).message(9, owner);
            Value::decode(&value.into_bytes()).unwrap().data
        };
        let image = Image {
            height: 16,
            width: 32,
            channels: 0,
            encoded: b"a file".to_vec(),
        };
        let texts: [&[u8]; 4] = [b"32", b"16", b"a file", b"another"];
        assert_eq!(read("images", &texts), Data::Image(image));
        assert_eq!(read("text", &texts), Data::Other);
        assert_eq!(read("images", &texts[..2]), Data::Other);
        assert_eq!(read("images", &[b"wide", b"16", b"a file"]), Data::Other);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20_000))]
        /// Whatever the bytes are, reading them gives an event or says what is wrong.
        #[test]
        fn no_bytes_make_reading_panic(changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6), cut in any::<prop::sample::Index>()) {
            let mut bytes = whole();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            bytes.truncate(cut.index(bytes.len()) + 1);
            if let Err(why) = Event::decode(&bytes) {
                prop_assert!(!why.is_empty());
            }
        }
    }
}
