//! Names of what the mapped file has by number: texts, places, programs and devices, each once, in the form of recordings.

use crate::record::recording::{Device, Frame, PlaceId, Program, Record, Start, TextId, Writer};
use crate::record::{place, text};
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes after which names of new things are lost: programs that make up graphs without end would fill the disk.
const MOST: u64 = 64 << 20;

/// The file of names.
pub(super) struct Names {
    writer: Writer<File>,
    frame: Frame,
    texts: HashSet<TextId>,
    places: HashSet<PlaceId>,
    devices: HashSet<u32>,
}

impl Names {
    pub(super) fn create(path: &Path, start: Start) -> io::Result<Names> {
        let mut names = Names {
            writer: Writer::new(File::create(path)?)?,
            frame: Frame::default(),
            texts: HashSet::new(),
            places: HashSet::new(),
            devices: HashSet::new(),
        };
        names.frame.push(&Record::Start(start));
        names.written()?;
        Ok(names)
    }

    fn written(&mut self) -> io::Result<()> {
        match self.writer.written() < MOST {
            true => self.writer.write(&mut self.frame),
            false => {
                self.frame = Frame::default();
                Ok(())
            }
        }
    }

    fn text(&mut self, id: TextId) {
        if id != 0
            && self.texts.insert(id)
            && let Some(text) = text::get(id)
        {
            let text = text.to_string();
            self.frame.push(&Record::Text { id, text });
        }
    }

    fn push_place(&mut self, id: PlaceId) {
        if !self.places.insert(id) {
            return;
        }
        if let Some(place) = place::get(id) {
            [place.op, place.scope, place.file]
                .into_iter()
                .for_each(|id| self.text(id));
            self.frame.push(&Record::Place(place));
        }
    }

    /// A place that launches name.
    pub(super) fn place(&mut self, id: PlaceId) -> io::Result<()> {
        self.push_place(id);
        self.written()
    }

    /// A program that launches name, and its device.
    pub(super) fn program(&mut self, program: Program, target: &str) -> io::Result<()> {
        if self.devices.insert(program.device) {
            let target = text::intern(target);
            self.text(target);
            self.frame.push(&Record::Device(Device {
                id: program.device,
                target,
                name: 0,
                unmeasured: 0,
            }));
        }
        self.text(program.name);
        for node in &program.nodes {
            self.text(node.kernel);
            self.text(node.shape);
            node.parts.iter().for_each(|part| self.push_place(part.place));
        }
        self.frame.push(&Record::Program(program));
        self.written()
    }
}
