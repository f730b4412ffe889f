//! What single kinds of calls hold.

use super::{
    Alloc, Answer, Backend, Call, Contents, Copy, End, File, Handle, Kernel, Packet, Record, Run, Submission,
    Work,
};

impl Call {
    /// The packets that a stream was given; none of another call.
    pub fn packets(&self) -> &[Packet] {
        if let Call::Submit(submission) = self {
            &submission.packets
        } else {
            &[]
        }
    }

    /// As [`Call::packets`].
    pub fn packets_mut(&mut self) -> &mut [Packet] {
        if let Call::Submit(submission) = self {
            &mut submission.packets
        } else {
            &mut []
        }
    }

    /// The stream that work goes to, that memory is for, or that is waited for.
    pub fn stream_mut(&mut self) -> Option<&mut Handle> {
        if let Call::Submit(Submission { stream, .. })
        | Call::Run(Run { stream, .. })
        | Call::Alloc(Alloc { stream, .. })
        | Call::SynchronizeStream(stream) = self
        {
            Some(stream)
        } else {
            None
        }
    }

    /// The kernel that was compiled.
    pub fn kernel(&self) -> Option<&Kernel> {
        if let Call::Compile(kernel) = self {
            Some(kernel)
        } else {
            None
        }
    }

    /// The backend that was named.
    pub fn backend(&self) -> Option<&Backend> {
        if let Call::Backend(backend) = self {
            Some(backend)
        } else {
            None
        }
    }

    /// What a copy to the host has brought.
    pub fn answer(&self) -> Option<&Answer> {
        if let Call::Result(answer) = self {
            Some(answer)
        } else {
            None
        }
    }
}

impl Packet {
    /// The bytes that it brings from the host, if it does.
    pub fn contents(&self) -> Option<&Contents> {
        match &self.work {
            Work::Copy(Copy {
                src: End::From(contents),
                ..
            }) => Some(contents),
            Work::Copy(_) | Work::Launch(_) | Work::Fill(_) => None,
        }
    }

    /// The bits of a scalar of a launch.
    pub(crate) fn scalar_mut(&mut self, scalar: usize) -> Option<&mut u64> {
        match &mut self.work {
            Work::Launch(launch) => launch.scalars.get_mut(scalar),
            Work::Copy(_) | Work::Fill(_) => None,
        }
    }

    fn contents_mut(&mut self) -> Option<&mut Contents> {
        match &mut self.work {
            Work::Copy(Copy {
                src: End::From(contents),
                ..
            }) => Some(contents),
            Work::Copy(_) | Work::Launch(_) | Work::Fill(_) => None,
        }
    }
}

impl File {
    /// The packets that streams were given, in order.
    pub fn packets(&self) -> impl Iterator<Item = (&Record, &Packet)> {
        let records = self.records.iter();
        records.flat_map(|record| record.call.packets().iter().map(move |packet| (record, packet)))
    }

    /// All bytes that came from the host.
    pub fn contents(&self) -> impl Iterator<Item = &Contents> {
        self.records.iter().flat_map(|record| {
            let import = if let Call::Import(import) = &record.call {
                Some(&import.contents)
            } else {
                None
            };
            import
                .into_iter()
                .chain(record.call.packets().iter().filter_map(Packet::contents))
        })
    }

    /// As [`File::contents`].
    pub fn contents_mut(&mut self) -> impl Iterator<Item = &mut Contents> {
        self.records.iter_mut().flat_map(|record| {
            let (import, packets) = match &mut record.call {
                Call::Import(import) => (Some(&mut import.contents), &mut [][..]),
                other => (None, other.packets_mut()),
            };
            import
                .into_iter()
                .chain(packets.iter_mut().filter_map(Packet::contents_mut))
        })
    }
}
