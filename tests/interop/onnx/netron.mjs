// Opens models with the modules of PyPI's package `netron`, like Netron, and prints what Netron would draw of each model:
//
//     node netron.mjs FOLDER MODEL...      FOLDER: the package's, or a copy of its modules
//
// One line of JSON for each model: its format, its nodes, and the names of its inputs and outputs.

import * as fs from 'fs/promises';
import * as path from 'path';
import { pathToFileURL } from 'url';

const [folder, ...models] = process.argv.slice(2);
const module = (name) => import(pathToFileURL(path.resolve(folder, `${name}.js`)).href);
const base = await module('base');
const view = await module('view');

const host = {
    environment: () => undefined,
    require: module,
    exception: (error) => { throw error; },
    event: () => {},
};

for (const model of models) {
    const bytes = new Uint8Array(await fs.readFile(model));
    const context = {
        identifier: path.basename(model),
        stream: new base.BinaryStream(bytes),
        entries: new Map(),
        asset: (file) => fs.readFile(path.resolve(folder, file), 'utf-8'),
        require: module,
        fetch: (file) => { throw new Error(`${file} was asked for`); },
        error: (error) => { throw error; },
    };
    const opened = await new view.ModelFactoryService(host).open(context);
    const graph = opened.modules[0];
    console.log(JSON.stringify({
        format: opened.format,
        nodes: graph.nodes.map((node) => node.type.name),
        inputs: graph.inputs.map((input) => input.name),
        outputs: graph.outputs.map((output) => output.name),
    }));
}
