//! Bundles: policies that are published in a registry, on a server or as an archive.
//!
//! In: a [`BundleReference`](crate::judge::bundle::BundleReference). Out: its files in memory, as a
//! [`Bundle`](crate::judge::bundle::Bundle), verified and followed; or the other way, an artifact of a registry. What is
//! downloaded was written by others: it is bounded, compared with its digest, and unpacked nowhere but in memory.

mod archive;
mod cache;
mod contents;
mod cosign;
mod credential;
mod digest;
mod download;
pub mod follower;
mod http;
pub(crate) use self::http::download;
mod key;
mod keyless;
mod manifest;
mod name;
mod package;
pub mod push;
mod registry;
mod ring_provider;
pub mod settings;
mod signature;
