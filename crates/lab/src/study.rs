//! What `plimsoll study` runs when nobody says otherwise, as an experiment file.

use std::collections::BTreeMap;
use std::fmt::Write;

/// What a study is made for.
#[derive(Debug, Clone)]
pub struct Study<'a> {
    /// The target's URL.
    pub url: &'a str,
    /// Its options.
    pub options: &'a BTreeMap<String, String>,
    /// Cores that can be used.
    pub cores: usize,
    /// Free memory in bytes, if known.
    pub free_memory: Option<u64>,
    /// Small data and short runs.
    pub quick: bool,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

/// On a machine with less free memory the data is a tenth.
const SMALL_MEMORY: u64 = 6 << 30;

/// More clients without think time than this only wait for each other.
const CLIENTS_MAX: usize = 32;

impl Study<'_> {
    /// The experiment file. Each side can use the whole machine: as many transactional clients as cores, without think
    /// time, one warehouse each; and one analytical client whose queries run on all cores. So what sharing costs is not
    /// hidden by idle cores. The data of the quick study, and of one on a small machine, is a tenth. Five short repeats
    /// rather than two long ones: from two nobody can tell a difference from noise.
    pub fn experiment(&self) -> String {
        let clients = self.cores.clamp(1, CLIENTS_MAX);
        let warehouses = if self.quick { clients.min(2) } else { clients };
        let is_small = self.quick || self.free_memory.is_some_and(|bytes| bytes < SMALL_MEMORY);
        let scale = if is_small { 0.1 } else { 1.0 };
        let (warmup, measure, repeats) = if self.quick { ("250ms", "900ms", 5) } else { ("1s", "5s", 5) };
        let mut text =
            String::from("name  = \"study\"\ntitle = \"Transactions and queries, alone and together\"\n\n[target]\n");
        // JSON's text in quotes is TOML's, but for a character that only TOML wants escaped.
        let quoted = |value: &str| serde_json::Value::from(value).to_string().replace('\u{7f}', "\\u007f");
        let mut line = |line: String| writeln!(text, "{line}").expect("a string takes any text");
        line(format!("url = {}", quoted(self.url)));
        if !self.options.is_empty() {
            line("\n[target.options]".to_owned());
            self.options.iter().for_each(|(name, value)| line(format!("{} = {}", quoted(name), quoted(value))));
        }
        line(format!(
            "\n[[workload]]\nname    = \"oltp\"\nkind    = \"tpcc\"\nscale   = {warehouses}\nclients = {clients}"
        ));
        line(format!("\n[[workload]]\nname    = \"olap\"\nkind    = \"tpch\"\nscale   = {scale}\nclients = 1"));
        // Into a server, data are loaded at a tenth of the speed: runs find what the ones before have left, which a window of
        // seconds makes little larger.
        let reload = if self.url == "embedded:" { "" } else { "\nreload  = \"never\"" };
        line(format!(
            "\n[run]\nwarmup  = \"{warmup}\"\nmeasure = \"{measure}\"\nrepeats = {repeats}\nseed    = {}{reload}",
            self.seed
        ));
        text
    }
}

#[cfg(test)]
mod tests;
