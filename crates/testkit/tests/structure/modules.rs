//! The modules of a crate: the items that they define, their imports, and the names that they use.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};

/// The modules of a crate. The root module is first.
pub(crate) struct Crate {
    folder: PathBuf,
    pub(crate) modules: Vec<Module>,
}

pub(crate) struct Module {
    pub(crate) name: String,
    pub(crate) parent: Option<usize>,
    /// Path of the file that contains the module, relative to the root file's folder.
    pub(crate) file: String,
    children: HashMap<String, usize>,
    items: HashSet<String>,
    /// True if the parent declares the module as `pub`.
    pub(crate) is_public: bool,
    /// Names of the module's structs, enums and traits that other modules can use.
    pub(crate) types: Vec<String>,
    /// True if the module has functions that other modules can use.
    pub(crate) has_functions: bool,
    /// Names that the module declares as `pub`: its own types and re-exports.
    pub(crate) exports: Vec<String>,
    /// Imported names, each with the path that it refers to.
    imports: HashMap<String, Vec<String>>,
    globs: Vec<Vec<String>>,
    named: Vec<Named>,
    /// Calls of methods without arguments: each method's name and the line of the call.
    pub(crate) calls: Vec<(String, usize)>,
}

/// A path in the code of a module, such as `crate::path::Step`.
struct Named {
    segments: Vec<String>,
    line: usize,
}

/// A use of a name in one module that another module defines.
pub(crate) struct Reference {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Crate {
    pub(crate) fn read(root: &Path) -> Crate {
        let folder = root.parent().unwrap().to_owned();
        let modules = Vec::new();
        let mut sources = Crate { folder, modules };
        let at = sources.add("crate", None, "lib.rs".into());
        sources.modules[at].is_public = true;
        sources.file(at, Path::new(""));
        sources
    }

    fn add(&mut self, name: &str, parent: Option<usize>, file: String) -> usize {
        self.modules.push(Module {
            name: name.to_owned(),
            parent,
            file,
            children: HashMap::new(),
            items: HashSet::new(),
            is_public: false,
            types: Vec::new(),
            has_functions: false,
            exports: Vec::new(),
            imports: HashMap::new(),
            globs: Vec::new(),
            named: Vec::new(),
            calls: Vec::new(),
        });
        self.modules.len() - 1
    }

    /// Reads the file of a module. The files of the module's children are in `folder`.
    fn file(&mut self, module: usize, folder: &Path) {
        let path = self.folder.join(&self.modules[module].file);
        let text = std::fs::read_to_string(&path)
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file =
            syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        self.items(module, &file.items, folder);
    }

    fn items(&mut self, module: usize, items: &[syn::Item], folder: &Path) {
        for item in items {
            if let syn::Item::Mod(child) = item {
                if !for_tests(&child.attrs) {
                    self.child(module, child, folder);
                }
                continue;
            }
            let mut collector = Collector {
                module: &mut self.modules[module],
            };
            collector.define(item);
            collector.visit_item(item);
        }
    }

    fn child(&mut self, parent: usize, child: &syn::ItemMod, folder: &Path) {
        let name = child.ident.to_string();
        let below = folder.join(&name);
        let is_public = matches!(child.vis, syn::Visibility::Public(_));
        if let Some((_, items)) = &child.content {
            let at = self.add(&name, Some(parent), self.modules[parent].file.clone());
            self.modules[parent].children.insert(name, at);
            self.modules[at].is_public = is_public;
            self.items(at, items, &below);
            return;
        }
        let flat = folder.join(format!("{name}.rs"));
        let file = if self.folder.join(&flat).is_file() {
            flat
        } else {
            below.join("mod.rs")
        };
        let at = self.add(&name, Some(parent), file.display().to_string());
        self.modules[parent].children.insert(name, at);
        self.modules[at].is_public = is_public;
        self.file(at, &below);
    }

    /// Returns true if a module has child modules. Modules of tests don't count.
    pub(crate) fn has_children(&self, module: usize) -> bool {
        !self.modules[module].children.is_empty()
    }

    /// Returns the module that defines the type called `name` in the module `from`, which defines
    /// or imports it, and the name at its definition. Returns `None` for a type of another crate.
    pub(crate) fn definition(&self, from: usize, name: &str) -> Option<(usize, String)> {
        let segments = match self.modules[from].imports.get(name) {
            Some(import) => import.clone(),
            None => vec![name.to_owned()],
        };
        let at = self.resolve(from, &segments, 0)?;
        Some((at, segments.last()?.clone()))
    }

    /// Returns all uses of names that other modules define. Omits re-exports, and names that the
    /// modules around the use define.
    pub(crate) fn references(&self) -> Vec<Reference> {
        let mut references = Vec::new();
        for (from, module) in self.modules.iter().enumerate() {
            for named in &module.named {
                let Some(to) = self.resolve(from, &named.segments, 0) else {
                    continue;
                };
                if self.lies_in(from, to) {
                    continue;
                }
                references.push(Reference {
                    from,
                    to,
                    line: named.line,
                    text: named.segments.join("::"),
                });
            }
        }
        references
    }

    /// Returns true if `module` is `outer` or is inside it.
    fn lies_in(&self, module: usize, outer: usize) -> bool {
        std::iter::successors(Some(module), |&at| self.modules[at].parent).any(|at| at == outer)
    }

    /// Returns the module that defines the item at the path `segments`, as seen from the module
    /// `from`. Returns `None` for an item of another crate.
    fn resolve(&self, from: usize, segments: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = segments.split_first()?;
        match first.as_str() {
            "crate" => self.descend(0, rest, depth),
            "self" => self.descend(from, rest, depth),
            "super" => self.descend(self.modules[from].parent?, rest, depth),
            _ => self.descend(from, segments, depth),
        }
    }

    fn descend(&self, at: usize, segments: &[String], depth: usize) -> Option<usize> {
        let (first, rest) = segments.split_first()?;
        let module = &self.modules[at];
        if depth > 32 {
            return None;
        }
        if first == "super" {
            return self.descend(module.parent?, rest, depth);
        }
        // If this fails, tries other items: a function may have the same name as a module.
        if let Some(&child) = module.children.get(first)
            && let Some(found) = self.descend(child, rest, depth)
        {
            return Some(found);
        }
        if module.items.contains(first) {
            return Some(at);
        }
        if let Some(import) = module.imports.get(first) {
            let whole = [import, rest].concat();
            // An import whose path begins with its own name refers to another crate.
            let itself = whole.first() == Some(first);
            return (!itself).then(|| self.resolve(at, &whole, depth + 1))?;
        }
        let mut globs = module.globs.iter();
        globs.find_map(|glob| self.resolve(at, &[&glob[..], segments].concat(), depth + 1))
    }
}

/// Returns true if an item is compiled only for tests.
fn for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let words = |list: &syn::MetaList| list.tokens.to_string();
        match &attribute.meta {
            syn::Meta::List(list) if list.path.is_ident("cfg") => {
                matches!(words(list).as_str(), "test" | "doctest")
            }
            meta => meta.path().is_ident("test"),
        }
    })
}

/// A visitor that collects the definitions, imports and used names of a module's items.
struct Collector<'a> {
    module: &'a mut Module,
}

impl Collector<'_> {
    fn define(&mut self, item: &syn::Item) {
        let name = match item {
            syn::Item::Const(item) => &item.ident,
            syn::Item::Enum(item) => &item.ident,
            syn::Item::Fn(item) => &item.sig.ident,
            syn::Item::Static(item) => &item.ident,
            syn::Item::Struct(item) => &item.ident,
            syn::Item::Trait(item) => &item.ident,
            syn::Item::Type(item) => &item.ident,
            syn::Item::Macro(item) => match &item.ident {
                Some(name) => name,
                None => return,
            },
            _ => return,
        };
        let name = name.to_string();
        self.offer(item, &name);
        self.module.items.insert(name);
    }

    /// Records the name of an item if other modules can use the item.
    fn offer(&mut self, item: &syn::Item, name: &str) {
        let visibility = match item {
            syn::Item::Enum(item) => &item.vis,
            syn::Item::Struct(item) => &item.vis,
            syn::Item::Trait(item) => &item.vis,
            syn::Item::Fn(item) => {
                self.module.has_functions |= !matches!(item.vis, syn::Visibility::Inherited);
                return;
            }
            _ => return,
        };
        if matches!(visibility, syn::Visibility::Inherited) {
            return;
        }
        self.module.types.push(name.to_owned());
        if matches!(visibility, syn::Visibility::Public(_)) {
            self.module.exports.push(name.to_owned());
        }
    }

    fn name(&mut self, segments: Vec<String>, line: usize) {
        self.module.named.push(Named { segments, line });
    }

    fn import(&mut self, tree: &syn::UseTree, before: &[String], lent: bool) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.import(&path.tree, &with(&path.ident), lent),
            syn::UseTree::Group(group) => {
                for tree in &group.items {
                    self.import(tree, before, lent);
                }
            }
            syn::UseTree::Glob(_) => self.module.globs.push(before.to_vec()),
            syn::UseTree::Name(name) if name.ident == "self" => {
                let name = before.last().cloned().unwrap_or_default();
                self.module.imports.insert(name, before.to_vec());
            }
            syn::UseTree::Name(name) => {
                let path = with(&name.ident);
                if !lent {
                    self.name(path.clone(), name.ident.span().start().line);
                }
                self.module.imports.insert(name.ident.to_string(), path);
            }
            syn::UseTree::Rename(rename) => {
                let path = with(&rename.ident);
                if !lent {
                    self.name(path.clone(), rename.ident.span().start().line);
                }
                self.module.imports.insert(rename.rename.to_string(), path);
            }
        }
    }

    /// Finds paths in the tokens of a macro call, whose syntax depends on the macro.
    fn tokens(&mut self, tokens: TokenStream) {
        let mut segments: Vec<String> = Vec::new();
        let mut line = 0;
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(ident) => {
                    if colons != 2 && !segments.is_empty() {
                        self.name(std::mem::take(&mut segments), line);
                    }
                    line = ident.span().start().line;
                    segments.push(ident.to_string());
                    colons = 0;
                }
                TokenTree::Punct(punct) if punct.as_char() == ':' => colons += 1,
                other => {
                    if !segments.is_empty() {
                        self.name(std::mem::take(&mut segments), line);
                    }
                    colons = 0;
                    if let TokenTree::Group(group) = other {
                        self.tokens(group.stream());
                    }
                }
            }
        }
        if !segments.is_empty() {
            self.name(segments, line);
        }
    }
}

impl<'ast> Visit<'ast> for Collector<'_> {
    fn visit_item(&mut self, item: &'ast syn::Item) {
        let attributes = match item {
            syn::Item::Fn(item) => &item.attrs,
            syn::Item::Impl(item) => &item.attrs,
            syn::Item::Use(item) => &item.attrs,
            syn::Item::Struct(item) => &item.attrs,
            _ => &Vec::new(),
        };
        if !for_tests(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let lent = !matches!(item.vis, syn::Visibility::Inherited);
        let before: HashSet<String> = self.module.imports.keys().cloned().collect();
        self.import(&item.tree, &[], lent);
        if matches!(item.vis, syn::Visibility::Public(_)) {
            let names = self.module.imports.keys();
            let new = names.filter(|name| !before.contains(*name)).cloned();
            self.module.exports.extend(new);
        }
    }

    fn visit_expr_method_call(&mut self, call: &'ast syn::ExprMethodCall) {
        if call.args.is_empty() {
            let line = call.method.span().start().line;
            self.module.calls.push((call.method.to_string(), line));
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let segments = path.segments.iter();
        let segments: Vec<String> = segments.map(|segment| segment.ident.to_string()).collect();
        let line = path
            .segments
            .first()
            .map_or(0, |first| first.ident.span().start().line);
        if path.leading_colon.is_none() {
            self.name(segments, line);
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, call: &'ast syn::Macro) {
        self.visit_path(&call.path);
        self.tokens(call.tokens.clone());
    }
}
