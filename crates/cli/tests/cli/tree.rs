//! Tests for `protosplit tree`.

use protosplit_cli::{Exit, Interrupt, Terminal};
use serde_json::Value;

use crate::support::{Dir, fixture, messages, run};

/// Checks that the sizes of a field's nested fields add up, and counts the fields.
fn check(field: &Value, shown: &mut usize) {
    *shown += 1;
    let size = |field: &Value| field["size"].as_u64().unwrap();
    let list = |name: &str| field[name].as_array().cloned().unwrap_or_default();
    let rest = |name: &str| field[name]["size"].as_u64().unwrap_or(0);
    let below: u64 = list("fields").iter().map(size).sum();
    if !list("fields").is_empty() || rest("other_fields") > 0 {
        let own = field["own"].as_u64().unwrap();
        assert_eq!(below + rest("other_fields") + own, size(field), "{field}");
    }
    let members: u64 = list("members").iter().map(size).sum();
    if members > 0 {
        assert_eq!(members + rest("other_members"), size(field), "{field}");
    }
    list("fields").iter().for_each(|field| check(field, shown));
}

#[test]
fn sizes_add_up_whatever_is_left_out() {
    for (file, message) in messages() {
        let mut most = 0;
        for (top, least) in [("1000", "0"), ("3", "0"), ("10", "1%"), ("1", "90%")] {
            let args: [&dyn AsRef<std::path::Path>; 9] = [
                &"tree",
                &file,
                &"--json",
                &"--message",
                &message,
                &"--top",
                &top,
                &"--min-size",
                &least,
            ];
            let report = run(args).json();
            let bytes = std::fs::metadata(&file).unwrap().len();
            assert_eq!(report["tree"]["size"], bytes);
            let mut shown = 0;
            check(&report["tree"], &mut shown);
            most = most.max(shown);
            assert!(shown <= most);
        }
        assert!(most > 20, "{message}");
    }
}

#[test]
fn depth_top_least_size_and_order_are_as_asked_for() {
    let model = fixture("functions_consts");
    let graph = "meta_graphs[0].graph_def";
    let at = |options: [&str; 4]| {
        let [a, b, c, d] = options;
        run([&"tree", &model, &graph, &"--json", &a, &b, &c, &d]).json()["tree"].clone()
    };
    let shallow = at(["--depth", "1", "--min-size", "0"]);
    let fields = shallow["fields"].as_array().unwrap();
    assert!(fields.iter().all(|field| field.get("fields").is_none()));
    assert_eq!(fields[0]["path"], "meta_graphs[0].graph_def.library");

    let names = |tree: &Value| -> Vec<String> {
        let node = &tree["fields"][1];
        assert_eq!(node["path"], "meta_graphs[0].graph_def.node[*]");
        let fields = node["fields"].as_array().unwrap().iter();
        let path = |field: &Value| field["path"].as_str().unwrap().to_owned();
        fields
            .map(|field| path(field).rsplit('.').next().unwrap().to_owned())
            .collect()
    };
    let by_size = names(&at(["--sort", "size", "--min-size", "0"]));
    assert_eq!(by_size, ["attr[*]", "name", "op", "input[*]", "device"]);
    let of_count = at(["--sort", "count", "--min-size", "0"]);
    let most = &of_count["fields"][0];
    assert_eq!(most["path"], "meta_graphs[0].graph_def.node[*]");
    let by_name = run([
        &"tree",
        &model,
        &graph,
        &"--sort",
        &"name",
        &"--min-size",
        &"0",
    ])
    .ok();
    let place = |name: &str| by_name.find(&format!("├─ {name}\n")).unwrap();
    assert!(place("library") < place("node[*]"));

    let one = at(["--top", "1", "--min-size", "0"]);
    let node = &one["fields"][0]["fields"][0];
    assert_eq!(node["members"].as_array().unwrap().len(), 1);
    assert_eq!(node["other_members"]["count"], 7);
    assert_eq!(node["fields"].as_array().unwrap().len(), 1);
}

#[test]
fn a_path_that_is_shown_can_be_asked_for() {
    let model = fixture("keras_mlp");
    let report = run([&"tree", &model, &"--json"]).json();
    let mut open = vec![report["tree"].clone()];
    let mut asked = 0;
    while let Some(field) = open.pop() {
        open.extend(field["fields"].as_array().cloned().unwrap_or_default());
        for member in field["members"].as_array().into_iter().flatten() {
            open.push(member.clone());
        }
        let path = field["path"].as_str().unwrap();
        if path.is_empty() || path.contains('(') {
            continue;
        }
        let again = run([&"tree", &model, &path, &"--json", &"--depth", &"0"]).json();
        // If a member is the root of a tree, its size is that of the value alone. Otherwise, the
        // size includes the tag, the length and the map entry.
        let size = |field: &Value| field["size"].as_u64().unwrap();
        let (asked_for, shown) = (size(&again["tree"]), size(&field));
        assert_eq!(again["tree"]["path"], path);
        assert!(shown - asked_for <= 100 && (asked_for == shown || !path.ends_with("[*]")));
        asked += 1;
    }
    assert!(asked > 30, "{asked}");
}

#[test]
fn a_mistyped_path_is_answered_with_the_one_that_was_meant() {
    let model = fixture("keras_mlp");
    for (typed, meant, exit) in [
        (
            "meta_graph[0].graphdef",
            "meta_graphs[0].graph_def",
            Exit::Usage,
        ),
        (
            "meta_graphs.graph_def",
            "meta_graphs[0].graph_def",
            Exit::Usage,
        ),
        (
            "graph_def.node",
            "meta_graphs[0].graph_def.node",
            Exit::Usage,
        ),
        // After `[*]`, the field is looked up in the elements of the message, so the status is that
        // for bad data.
        (
            "meta_graphs[*].graph_def.nod[*]",
            "meta_graphs[*].graph_def.node[*]",
            Exit::Bad,
        ),
    ] {
        let line = run([&"tree", &model, &typed]).failed(exit);
        let hint = format!("; did you mean `{meant}`?");
        assert!(line.ends_with(&hint), "{line}");
    }
    let line = run([&"tree", &model, &"elephant"]).failed(Exit::Usage);
    assert!(!line.contains("did you mean"), "{line}");
    let line = run([&"tree", &model, &"meta_graphs[7]"]).failed(Exit::Bad);
    let told = "the message has no such value: meta_graphs has 1 element, counted from 0";
    assert!(line.ends_with(told), "{line}");
}

#[test]
fn two_messages_are_compared_whatever_form_they_are_in() {
    let dir = Dir::new();
    let (old, new) = (fixture("keras_mlp"), fixture("functions_consts"));
    let chunked = dir.path("new/saved_model");
    std::fs::create_dir(dir.path("new")).unwrap();
    let max = "--max-chunk-size";
    run([
        &"split",
        &new.join("saved_model.pb"),
        &"-o",
        &chunked,
        &max,
        &"20KiB",
    ])
    .ok();
    let whole = run([&"tree", &new, &"--diff", &old, &"--json"]).json();
    let chunks = run([&"tree", &dir.path("new"), &"--diff", &old, &"--json"]).json();
    assert_eq!(whole["changes"], chunks["changes"]);
    let change = |at: usize| whole["changes"][at]["change"].as_i64().unwrap().abs();
    let count = whole["changes"].as_array().unwrap().len();
    assert!((1..count).all(|at| change(at) <= change(at - 1)) && count > 5);
    let same = run([&"tree", &dir.path("new"), &"--diff", &new]).ok();
    assert!(same.ends_with(": no size differs\n"), "{same}");
}

#[test]
fn bad_messages_and_wrong_options_are_told_apart() {
    let dir = Dir::new();
    let bad = dir.file("saved_model.pb", b"\x12\x03\x0a\x05");
    let line = run([&"tree", &bad]).failed(Exit::Bad);
    assert!(
        line.contains("run past the end") || line.contains("runs past the end"),
        "{line}"
    );
    let bad = dir.file("saved_model.pb", b"\x12\x02\x12\x05");
    let line = run([&"tree", &bad]).failed(Exit::Bad);
    assert!(
        line.contains("meta_graphs[*]: a value that runs past"),
        "{line}"
    );
    for wrong in ["-1", "200%", "1.5", "1MX"] {
        let line = run([&"tree", &bad, &"--min-size", &wrong]);
        assert_eq!(line.exit, Exit::Usage, "{wrong}");
    }
    let none = dir.file("empty.pb", b"");
    assert!(run([&"tree", &none]).ok().contains("0 B"));
}

#[test]
fn pages_and_pictures_are_written_like_any_file() {
    let dir = Dir::new();
    let model = fixture("functions_consts");
    let (page, picture) = (dir.path("a.html"), dir.path("a.svg"));
    let both = run([&"tree", &model, &"--html", &page, &"--svg", &picture]).ok();
    assert_eq!(both, "", "instead of the table");
    let page_text = std::fs::read_to_string(&page).unwrap();
    assert!(page_text.contains("\"n\":\"tensor_content\"") && page_text.len() < 1 << 20);
    let picture_text = std::fs::read_to_string(&picture).unwrap();
    assert!(
        picture_text.contains(">Const_1 · Const float[64, 300]</text>"),
        "the members of function[*].node_def[*] say more than its fields"
    );
    assert_eq!(
        picture_text.matches("<g>").count(),
        picture_text.matches("</g>").count()
    );
    let line = run([&"tree", &model, &"--html", &page]).failed(Exit::Usage);
    assert!(line.ends_with("(--force replaces it)"), "{line}");
    let report = run([&"tree", &model, &"--svg", &picture, &"--force", &"--json"]).json();
    assert_eq!(report["tree"]["count"], 1);
    assert_eq!(dir.files(), ["a.html", "a.svg"]);
    assert_eq!(run([&"tree", &model, &"--svg", &"-"]).ok(), picture_text);
}

/// Returns the JSON data in a page.
fn data_of(page: &std::path::Path) -> serde_json::Value {
    let text = std::fs::read_to_string(page).unwrap();
    let (_, data) = text.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once("</script>").unwrap();
    serde_json::from_str(data).unwrap()
}

#[test]
fn a_page_lists_the_members_of_every_level_and_what_is_in_each() {
    let dir = Dir::new();
    let page = dir.path("a.html");
    run([&"tree", &fixture("functions_consts"), &"--html", &page]).ok();
    let data = data_of(&page);
    let step = |item: &serde_json::Value, name: &str| {
        let fields = item["f"].as_array().unwrap();
        let found = fields.iter().find(|field| field["n"] == name);
        found.unwrap_or_else(|| panic!("{name} in {item}")).clone()
    };
    let graphs = step(&data["tree"], "meta_graphs[*]");
    let functions = step(&step(&step(&graphs, "graph_def"), "library"), "function[*]");
    assert_eq!(functions["m"].as_array().unwrap().len(), 8);
    assert!(functions.get("r").is_none(), "no others: {functions}");
    // The page can zoom into a function, and into a node in the function.
    let path = functions["m"][0][5].as_str().unwrap();
    let nodes = step(&data["inside"][path], "node_def[*]");
    let node = nodes["m"][0][5].as_str().unwrap();
    assert!(node.starts_with(&format!("{path}.node_def[")), "{node}");
    step(&data["inside"][node], "attr[*]");

    // Even thousands of small nodes are listed separately.
    let node = |at: u32| [&[0x0a, 10, 0x0a, 8][..], format!("{at:08}").as_bytes()].concat();
    let many = dir.file("many.pb", (0..3645).flat_map(node).collect::<Vec<u8>>());
    let typed = "tensorflow.GraphDef";
    run([
        &"tree",
        &many,
        &"--message",
        &typed,
        &"--html",
        &page,
        &"--force",
    ])
    .ok();
    let nodes = step(&data_of(&page)["tree"], "node[*]");
    assert_eq!(nodes["m"].as_array().unwrap().len(), 3645);
    assert!(nodes.get("r").is_none());
}

#[test]
fn what_a_page_shows_can_be_cut_down() {
    let dir = Dir::new();
    let (model, page) = (fixture("functions_consts"), dir.path("a.html"));
    run([
        &"tree", &model, &"--html", &page, &"--depth", &"2", &"--top", &"1",
    ])
    .ok();
    let text = std::fs::read_to_string(&page).unwrap();
    assert!(text.contains("graph_def") && !text.contains("meta_info_def"));
    assert!(!text.contains("tensor_content"));
}

#[test]
fn what_is_asked_for_by_number_or_order_is_shown_however_small_it_is() {
    let model = fixture("keras_mlp");
    let nodes = "meta_graphs[0].graph_def.node[*]";
    let report = run([&"tree", &model, &nodes, &"--top", &"50", &"--json"]).json();
    let members = report["tree"]["members"].as_array().unwrap().len();
    let count = report["tree"]["count"].as_u64().unwrap();
    assert_eq!(members as u64, count.min(50));

    // The field that occurs most often in nodes may be the smallest one.
    let by_count = run([&"tree", &model, &nodes, &"--sort", &"count", &"--json"]).json();
    let fields = by_count["tree"]["fields"].as_array().unwrap();
    let counts: Vec<u64> = fields
        .iter()
        .map(|field| field["count"].as_u64().unwrap())
        .collect();
    assert!(counts.is_sorted_by(|a, b| a >= b), "{counts:?}");
    let all = ["--sort", "count", "--min-size", "0"];
    let all = run([
        &"tree", &model, &nodes, &all[0], &all[1], &all[2], &all[3], &"--json",
    ]);
    assert_eq!(all.json()["tree"], by_count["tree"]);
    let first = run([
        &"tree", &model, &nodes, &"--sort", &"count", &"--top", &"1", &"--json",
    ]);
    assert_eq!(first.json()["tree"]["fields"][0]["path"], fields[0]["path"]);
}

#[test]
fn full_paths_are_not_cut_and_lead_to_what_they_say() {
    let model = fixture("functions_consts");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let args = ["protosplit", "tree", "--full-paths", "--depth", "12"];
    let args = args.map(std::ffi::OsString::from);
    let args = args.into_iter().chain([model.clone().into_os_string()]);
    let terminal = Terminal::of_width(40);
    protosplit_cli::run_on(args, &mut out, &mut err, terminal, &Interrupt::new());
    let text = String::from_utf8(out).unwrap();
    assert!(!text.contains('…'), "{text}");
    let mut members = 0;
    for line in text.lines().skip(2) {
        let path = line.rsplit("  ").next().unwrap();
        if path.starts_with('[') || path.contains("(key)") {
            continue;
        }
        let part = run([&"tree", &model, &path, &"--json"]).json();
        assert!(part["tree"]["size"].as_u64().unwrap() > 0, "{path}");
        members += usize::from(path.ends_with("tensor_content") || path.ends_with(']'));
    }
    assert!(members > 3, "{text}");
}

#[test]
fn a_terminal_gets_bars_and_a_file_gets_none() {
    let model = fixture("functions_consts").into_os_string();
    let on = |terminal: Terminal| {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let args = ["protosplit", "tree"].map(std::ffi::OsString::from);
        let args = args.into_iter().chain([model.clone()]);
        protosplit_cli::run_on(args, &mut out, &mut err, terminal, &Interrupt::new());
        String::from_utf8(out).unwrap()
    };
    let shown = on(Terminal::of_width(100));
    assert!(shown.contains("100.0%  ██████████  "), "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 100),
        "{shown}"
    );
    assert!(!on(Terminal::none()).contains('█'));
}

#[test]
fn what_changed_can_be_looked_at_as_a_page() {
    let dir = Dir::new();
    let model = fixture("functions_consts").join("saved_model.pb");
    let new = dir.path("new.pb");
    let removed = "meta_graphs[0].graph_def.library.function[5]";
    let message = "tensorflow.SavedModel";
    run([
        &"remove",
        &model,
        &removed,
        &"-o",
        &new,
        &"--message",
        &message,
    ])
    .ok();
    let page = dir.path("changes.html");
    let args: [&dyn AsRef<std::path::Path>; 8] = [
        &"tree",
        &new,
        &"--diff",
        &model,
        &"--html",
        &page,
        &"--message",
        &message,
    ];
    assert_eq!(run(args).ok(), "");
    let page = std::fs::read_to_string(page).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    assert!(page.contains("__inference_f_325") && page.contains("class=\"less\""));
    assert!(
        page.contains("title=\"meta_graphs[*].graph_def.library\""),
        "{page}"
    );
    assert!(!page.contains("<script") && !page.contains("http:") && !page.contains("https:"));
}
