//! Archives after the specification, built here, and the verdicts of the crate on them.

use onnxz::Archive;

/// A field of a message with a length: a string or a message.
fn nested(number: u8, content: &[u8]) -> Vec<u8> {
    assert!(content.len() < 1 << 14, "the messages of these tests are short");
    let length = [content.len() as u8 | 0x80, (content.len() >> 7) as u8];
    [&[number << 3 | 2][..], &length, content].concat()
}

fn varint(number: u8, value: u8) -> Vec<u8> {
    vec![number << 3, value]
}

/// An external tensor of bytes: its name, its location, its size, and its offset if there is one.
fn tensor(name: &str, location: &str, nbytes: u8) -> Vec<u8> {
    let entry = |key: &str, value: &str| {
        nested(13, &[nested(1, key.as_bytes()), nested(2, value.as_bytes())].concat())
    };
    let external = [entry("location", location), entry("length", &nbytes.to_string())].concat();
    [varint(1, nbytes), varint(2, 2), nested(8, name.as_bytes()), external, varint(14, 1)].concat()
}

fn model(tensors: &[Vec<u8>]) -> Vec<u8> {
    let graph: Vec<u8> = tensors.iter().flat_map(|tensor| nested(5, tensor)).collect();
    [varint(1, 8), nested(7, &graph)].concat()
}

/// The fields that a local header and the directory share, from "version needed" to "length of the name".
fn said(name: &str, payload: &[u8]) -> Vec<u8> {
    let nbytes = u32::try_from(payload.len()).expect("the entries of these tests are short").to_le_bytes();
    let name_nbytes = u16::try_from(name.len()).expect("so are the names").to_le_bytes();
    [&[10, 0, 0, 0, 0, 0, 0, 0, 33, 0, 1, 2, 3, 4][..], &nbytes, &nbytes, &name_nbytes].concat()
}

fn archive(entries: &[(&str, &[u8])]) -> Vec<u8> {
    let (mut file, mut directory) = (Vec::new(), Vec::new());
    for (name, payload) in entries {
        let offset = u32::try_from(file.len()).expect("the archives of these tests are short");
        let said = said(name, payload);
        directory
            .extend([b"PK\x01\x02-\0", &said[..], &[0; 12], &offset.to_le_bytes(), name.as_bytes()].concat());
        file.extend([b"PK\x03\x04", &said[..], &[0; 2], name.as_bytes(), payload].concat());
    }
    let count = u16::try_from(entries.len()).expect("a few").to_le_bytes();
    let [nbytes, offset] =
        [directory.len(), file.len()].map(|n| u32::try_from(n).expect("short, too").to_le_bytes());
    file.extend(directory);
    file.extend([b"PK\x05\x06\0\0\0\0", &count[..], &count, &nbytes, &offset, &[0; 2]].concat());
    file
}

/// Three tensors in two entries.
fn example() -> Vec<u8> {
    let graph = model(&[tensor("layer.1", "b", 3), tensor("layer.0", "a", 2), tensor("again", "b", 3)]);
    archive(&[("b", &[1, 2, 3]), ("a", &[4, 5]), ("__MODEL_PROTO", &graph)])
}

#[test]
fn entries_and_tensors_are_slices_of_the_file() {
    let file = example();
    let archive = Archive::parse(&file[..]).expect("it keeps all requirements");

    let entries: Vec<_> = archive.entries().map(|entry| (entry.name(), entry.bytes())).collect();
    assert_eq!(entries, [("b", &[1, 2, 3][..]), ("a", &[4, 5][..])]);
    for entry in archive.entries().chain([archive.graph()]) {
        let start = usize::try_from(entry.file_offset()).expect("it is in memory");
        assert!(std::ptr::eq(entry.bytes(), &file[start..start + entry.bytes().len()]));
    }
    assert_eq!(archive.entry("a").map(|entry| entry.bytes()), Some(&[4, 5][..]));
    assert!(archive.entry("A").is_none());
    assert!(archive.entry("__MODEL_PROTO").is_none());
    assert_eq!(archive.graph().name(), "__MODEL_PROTO");

    let tensors: Vec<_> = archive.tensors().map(|tensor| (tensor.name(), tensor.entry().name())).collect();
    assert_eq!(tensors, [(&b"layer.1"[..], "b"), (&b"layer.0"[..], "a"), (&b"again"[..], "b")]);
    assert!(archive.tensors().all(|tensor| tensor.data_type() == 2));
    assert_eq!(archive.tensors().map(|tensor| tensor.dims()[0]).collect::<Vec<_>>(), [3, 2, 3]);
}

#[test]
fn refusals_name_the_requirement() {
    let file = example();
    let refused = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut file = file.clone();
        change(&mut file);
        let error = Archive::parse(file).expect_err("it breaks a requirement");
        assert!(error.to_string().ends_with(&format!("({})", error.requirement().expect("it is refused"))));
        error.requirement()
    };
    assert_eq!(refused(&|file| file.push(0)), Some("Z-2.1"));
    assert_eq!(refused(&|file| file[8] = 8), Some("Z-3.2"));
    assert_eq!(refused(&|file| file.insert(0, 0)), Some("Z-2.4"));
    assert_eq!(refused(&|file| file.clear()), Some("Z-2.1"));
}

#[cfg(feature = "mmap")]
#[test]
fn a_file_is_mapped() {
    let path = |name: &str| std::env::temp_dir().join(format!("onnxz-test-{}-{name}", std::process::id()));
    let (whole, empty) = (path("whole.onnxz"), path("empty.onnxz"));
    std::fs::write(&whole, example()).expect("the folder can be written to");
    std::fs::write(&empty, b"").expect("the folder can be written to");
    {
        let archive = Archive::open(&whole).expect("it keeps all requirements");
        assert_eq!(archive.entry("b").map(|entry| entry.bytes()), Some(&[1, 2, 3][..]));
        assert_eq!(Archive::open(&empty).expect_err("it has no end record").requirement(), Some("Z-2.1"));
        assert!(matches!(Archive::open(path("missing")), Err(onnxz::Error::Io(_))));
        assert!(matches!(Archive::open(std::env::temp_dir()), Err(onnxz::Error::Io(_))));
    }
    for file in [whole, empty] {
        std::fs::remove_file(file).expect("it was written");
    }
}

/// A small generator, so that the inputs are the same on each machine: xorshift64.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap_or(0) % bound
    }
}

#[test]
fn nothing_makes_it_panic() {
    let seed = example();
    let mut random = Random(1);
    let mut taken = 0;
    for _ in 0..100_000 {
        let mut file = seed.clone();
        for _ in 0..=random.below(4) {
            let at = random.below(file.len());
            match random.below(5) {
                0 => file[at] ^= 1 << random.below(8),
                1 => file[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                2 => drop(file.remove(at)),
                3 => file.insert(at, 0xff),
                _ => {
                    let end = file.len().min(at + 4);
                    file[at..end].fill(0xff);
                }
            }
        }
        taken += usize::from(Archive::parse(&file[..]).is_ok());
    }
    assert!(taken > 100, "the changes are too large to get beyond the container: {taken} were taken");
}
