//! The files of an export as tables of DataFusion.
//!
//! Plans name files by the URL of a store, `export://data/`, and each process finds them below a folder of its own. A worker has
//! no other store, so a plan reads nothing beyond that folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::{DataFusionError, Result, Statistics, exec_err};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::execution::object_store::ObjectStoreRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::object_store::ObjectStore;
use datafusion::object_store::local::LocalFileSystem;
use datafusion::physical_plan::ExecutionPlan;
use plimsoll_export::Manifest;
use plimsoll_export::manifest::{ExportedTable, MANIFEST};
use sha2::{Digest, Sha256};
use url::Url;

use crate::error::ClusterError;

/// The scheme of the files' URLs.
const SCHEME: &str = "export";

/// The only store of a process: the files below one folder.
#[derive(Debug)]
pub struct ExportStore(Arc<dyn ObjectStore>);

impl ExportStore {
    pub fn new(folder: &Path) -> Result<ExportStore, ClusterError> {
        let failed = |error: datafusion::object_store::Error| ClusterError::Path {
            path: folder.to_owned(),
            error: std::io::Error::other(error.to_string()),
        };
        Ok(ExportStore(Arc::new(LocalFileSystem::new_with_prefix(folder).map_err(failed)?)))
    }
}

impl ObjectStoreRegistry for ExportStore {
    fn register_store(&self, _url: &Url, _store: Arc<dyn ObjectStore>) -> Option<Arc<dyn ObjectStore>> {
        None
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        match url.scheme() {
            SCHEME => Ok(Arc::clone(&self.0)),
            _ => exec_err!("{url} is no file of the export"),
        }
    }
}

/// An export in a folder.
#[derive(Debug)]
pub struct Export {
    pub manifest: Manifest,
    /// The SHA-256 of its manifest, in hexadecimal digits. The manifest has that of each file.
    pub digest: String,
    /// The path of its folder below the store's.
    path: String,
}

impl Export {
    /// The export in the folder `path` below that of the store.
    pub fn open(store: &Path, path: &str) -> Result<Export, ClusterError> {
        let folder = store.join(path);
        let place = folder.join(MANIFEST);
        let bytes = std::fs::read(&place).map_err(|error| match error.kind() {
            std::io::ErrorKind::NotFound => ClusterError::NoExport(folder),
            _ => ClusterError::Path { path: place.clone(), error },
        })?;
        let manifest = Manifest::parse(&bytes, &place.display().to_string())?;
        Ok(Export { manifest, digest: digest(&bytes), path: path.to_owned() })
    }

    /// Its tables of one schema; all, if it has none of that schema, as for a workload that uses the tables of a server.
    pub fn tables_of<'a>(&'a self, schema: &'a str) -> impl Iterator<Item = &'a ExportedTable> {
        let has_schema = self.manifest.tables.iter().any(|table| table.schema == schema);
        self.manifest.tables.iter().filter(move |table| !has_schema || table.schema == schema)
    }

    /// A table as DataFusion reads it: exactly the files that the manifest names.
    pub async fn provider(&self, table: &ExportedTable, state: &SessionState) -> Result<Arc<dyn TableProvider>> {
        let separator = if self.path.is_empty() { "" } else { "/" };
        let url = |path: &str| {
            let url = Url::parse(&format!("{SCHEME}://data/{}{separator}{path}", self.path));
            let url = url.map_err(|error| DataFusionError::External(Box::new(error)))?;
            ListingTableUrl::try_new(url, None)
        };
        let urls = table.files.iter().map(|file| url(&file.path)).collect::<Result<Vec<_>>>()?;
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()));
        // All files of a table have one schema.
        let first = urls.first().cloned();
        let Some(first) = first else { return exec_err!("table {} has no files in its manifest", table.name) };
        let schema = options.infer_schema(state, &first).await?;
        let config = ListingTableConfig::new_with_multi_paths(urls).with_listing_options(options).with_schema(schema);
        let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
        let files = ListingTable::try_new(config)?.with_cache(cache);
        let statistics = files.list_files_for_scan(state, &[], None).await?.statistics;
        Ok(Arc::new(TableOfFiles { files, statistics }))
    }
}

/// The files of a table, and what their footers say of its rows and values, by which joins are ordered.
#[derive(Debug)]
struct TableOfFiles {
    files: ListingTable,
    statistics: Statistics,
}

#[async_trait]
impl TableProvider for TableOfFiles {
    fn schema(&self) -> SchemaRef {
        self.files.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.files.scan(state, projection, filters, limit).await
    }

    fn supports_filters_pushdown(&self, filters: &[&Expr]) -> Result<Vec<TableProviderFilterPushDown>> {
        self.files.supports_filters_pushdown(filters)
    }

    fn statistics(&self) -> Option<Statistics> {
        Some(self.statistics.clone())
    }
}

/// The digest of the manifest in a folder; `None` if it has no export.
pub fn digest_of(folder: &Path) -> Option<String> {
    std::fs::read(folder.join(MANIFEST)).ok().map(|bytes| digest(&bytes))
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The folder of a schema's export among those of a run.
pub fn folder_of(exports: &Path, schema: &str) -> PathBuf {
    exports.join(schema)
}
