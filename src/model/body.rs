//! The bytes of an object: plain JSON, or compressed with a dictionary trained on earlier objects.

use std::{
    borrow::Cow,
    cell::RefCell,
    collections::BTreeMap,
    fmt, io,
    sync::{Arc, OnceLock},
};

use jiff::Timestamp;
use serde::Deserialize;
use tracing::debug;
use zstd::{
    dict::{DecoderDictionary, EncoderDictionary},
    zstd_safe::{CCtx, DCtx},
};

/// The JSON of one object, plain or compressed with the dictionary of its cache.
#[derive(Clone, Default)]
pub struct Body {
    bytes: Arc<[u8]>,
    dictionary: Option<Arc<DecoderDictionary<'static>>>,
}

impl Body {
    /// Wraps JSON without compressing it.
    pub fn plain(json: &[u8]) -> Self {
        Self { bytes: json.into(), dictionary: None }
    }

    /// Returns the body of an object that has only the labels and the creation time of this one.
    #[must_use]
    pub fn labels_only(&self) -> Self {
        let (labels, created) = (self.labels(), self.created());
        if labels.is_empty() && created.is_none() {
            return Self::default();
        }
        let mut metadata = serde_json::json!({"labels": labels});
        if let Some(created) = created {
            metadata["creationTimestamp"] = created.to_string().into();
        }
        Self::plain(serde_json::json!({"metadata": metadata}).to_string().as_bytes())
    }

    /// Returns the labels of the object; none if they are not all strings, as in `GetLabels` of apimachinery.
    pub fn labels(&self) -> BTreeMap<String, String> {
        #[derive(Default, Deserialize)]
        struct Metadata {
            #[serde(default)]
            labels: Option<BTreeMap<String, String>>,
        }
        #[derive(Deserialize)]
        struct Labelled {
            #[serde(default)]
            metadata: Metadata,
        }
        let read = self.json().ok().and_then(|json| serde_json::from_slice::<Labelled>(&json).ok());
        read.and_then(|object| object.metadata.labels).unwrap_or_default()
    }

    /// Returns when the API server created the object, if that is known.
    pub fn created(&self) -> Option<Timestamp> {
        #[derive(Deserialize)]
        struct Created {
            metadata: Metadata,
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            creation_timestamp: Timestamp,
        }
        let json = self.json().ok()?;
        Some(serde_json::from_slice::<Created>(&json).ok()?.metadata.creation_timestamp)
    }

    /// Returns the bytes as they are stored: JSON, plain or compressed.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether the bytes are compressed.
    pub fn is_packed(&self) -> bool {
        self.dictionary.is_some()
    }

    /// Returns the JSON text.
    ///
    /// # Errors
    /// When the bytes cannot be decompressed, which only damaged memory can cause.
    pub fn json(&self) -> io::Result<Cow<'_, [u8]>> {
        thread_local! {
            // A context takes about 100 KB, and evaluation decompresses thousands of objects a second.
            static CONTEXT: RefCell<DCtx<'static>> = RefCell::new(DCtx::create());
        }
        let Some(dictionary) = &self.dictionary else { return Ok(Cow::Borrowed(&self.bytes)) };
        let size = zstd::bulk::Decompressor::upper_bound(&self.bytes)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "compressed object without a size"))?;
        let mut json = Vec::with_capacity(size);
        CONTEXT
            .with_borrow_mut(|context| context.decompress_using_ddict(&mut json, &self.bytes, dictionary.as_ddict()))
            .map_err(|code| io::Error::new(io::ErrorKind::InvalidData, zstd::zstd_safe::get_error_name(code)))?;
        Ok(Cow::Owned(json))
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({} bytes{})", self.bytes.len(), if self.dictionary.is_some() { ", packed" } else { "" })
    }
}

/// Compresses bodies as soon as there is a dictionary. Clones share it, so that a reader may compress an object before
/// it reaches the owner of the cache, which trains the dictionary.
#[derive(Clone, Default)]
pub struct Packing(Arc<Dictionaries>);

#[derive(Default)]
struct Dictionaries {
    /// Trained on the first bodies, which may all be of a few kinds or namespaces.
    first: OnceLock<Dictionary>,
    /// Trained on many more bodies: compresses to about half the size.
    second: OnceLock<Dictionary>,
}

struct Dictionary {
    encoder: EncoderDictionary<'static>,
    decoder: Arc<DecoderDictionary<'static>>,
}

impl Dictionary {
    fn train(samples: &[impl AsRef<[u8]>]) -> io::Result<Self> {
        let dictionary = zstd::dict::from_samples(samples, DICTIONARY_BYTES)?;
        let encoder = EncoderDictionary::try_copy(&dictionary, LEVEL)?;
        Ok(Self { encoder, decoder: Arc::new(DecoderDictionary::try_copy(&dictionary)?) })
    }
}

impl Dictionaries {
    fn best(&self) -> Option<&Dictionary> {
        self.second.get().or_else(|| self.first.get())
    }
}

impl Packing {
    /// Compresses a body, if there is a dictionary and the result is smaller.
    pub fn pack(&self, body: Body) -> Body {
        thread_local! {
            static CONTEXT: RefCell<CCtx<'static>> = RefCell::new(CCtx::create());
        }
        let Some(dictionary) = self.0.best().filter(|_| !body.is_packed()) else { return body };
        let mut packed = Vec::with_capacity(zstd::zstd_safe::compress_bound(body.bytes.len()));
        let compressed = CONTEXT.with_borrow_mut(|context| {
            context.compress_using_cdict(&mut packed, &body.bytes, dictionary.encoder.as_cdict())
        });
        match compressed {
            Ok(_) if packed.len() < body.bytes.len() => {
                Body { bytes: packed.into(), dictionary: Some(Arc::clone(&dictionary.decoder)) }
            }
            _ => body,
        }
    }
}

/// Trains the dictionaries.
///
/// The objects of a cluster resemble each other far more than the parts of one object do: without a dictionary they
/// take two and a half times the memory.
#[derive(Default)]
pub struct Packer {
    /// The number of bodies so far; nothing is compressed before there is a dictionary.
    seen: usize,
    /// The remaining training stages.
    stages: &'static [Stage],
    packing: Packing,
}

/// When a dictionary is trained, and on how many samples.
struct Stage {
    bodies: usize,
    samples: usize,
}

/// Up to the first stage, bodies remain plain, since they take little memory. The pipeline waits for the first training,
/// so it uses few samples; the second runs on its own thread.
const STAGES: [Stage; 2] = [Stage { bodies: 1_000, samples: 250 }, Stage { bodies: 10_000, samples: 1_000 }];
/// One huge object (a CRD, a ConfigMap with a binary) must not fill the samples.
const SAMPLE_BYTES: usize = 8 * 1024;
const DICTIONARY_BYTES: usize = 64 * 1024;
const LEVEL: i32 = 3;

impl Packer {
    /// Creates a packer that trains the dictionaries of `packing`.
    pub fn new(packing: Packing) -> Self {
        Self { seen: 0, stages: &STAGES, packing }
    }

    /// Creates a packer that never trains, so that everything remains plain.
    pub fn off() -> Self {
        Self::default()
    }

    /// Whether there are enough bodies to train a dictionary.
    pub fn ready_to_train(&self) -> bool {
        self.stages.first().is_some_and(|stage| self.seen >= stage.bodies)
    }

    /// Trains a dictionary on `count` bodies. Returns whether existing bodies should be compressed with it, because it
    /// is the first.
    pub fn train<'a>(&mut self, bodies: impl Iterator<Item = &'a Body>, count: usize) -> bool {
        let Some((stage, later)) = self.stages.split_first() else { return false };
        self.stages = later;
        let sample = |body: &Body| body.json().map(|json| json[..json.len().min(SAMPLE_BYTES)].to_vec()).ok();
        let samples: Vec<_> = bodies.step_by((count / stage.samples).max(1)).filter_map(sample).collect();
        let dictionaries = Arc::clone(&self.packing.0);
        if dictionaries.first.get().is_some() {
            let training = std::thread::Builder::new().spawn(move || train_into(&dictionaries.second, &samples));
            if let Err(error) = training {
                debug!(%error, "The second dictionary of the cache could not be trained");
            }
            return false;
        }
        train_into(&dictionaries.first, &samples);
        true
    }

    /// Counts a body, and compresses it if its reader has not done so.
    pub fn pack(&mut self, body: Body) -> Body {
        self.seen += 1;
        self.packing.pack(body)
    }
}

/// Trains a dictionary and stores it; without one, bodies remain as they are.
fn train_into(dictionary: &OnceLock<Dictionary>, samples: &[Vec<u8>]) {
    match Dictionary::train(samples) {
        // Each is trained once.
        Ok(trained) => drop(dictionary.set(trained)),
        Err(error) => debug!(%error, "A dictionary of the cache could not be trained"),
    }
}

impl fmt::Debug for Packer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Packer({} seen, {} stages left)", self.seen, self.stages.len())
    }
}
