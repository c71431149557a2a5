// Manifests as people have them: what is read, what is skipped, and where a mistake is said to be.
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { stringify } from 'yaml';
import { spoken } from '../src/kube/kind.ts';
import { knownFromFiles, manifestsOf, place, readManifests, readMesh } from '../src/mesh/sources/files.ts';
import { NOTHING_DECLARED } from '../src/mesh/store.ts';

const folder = mkdtempSync(join(tmpdir(), 'waywarden-files-'));
afterAll(() => rmSync(folder, { recursive: true }));

function written(name: string, content: string | Buffer): string {
  const file = join(folder, name);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, content);
  return file;
}

const named = (source: string) => manifestsOf('f.yaml', source).objects.map(({ ref }) => spoken(ref));

const SERVICE = 'apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  namespace: shop\n';

describe('what is read', () => {
  test('several documents, empty ones among them, comments and Windows line ends', () => {
    expect(named(`---\n# only a comment\n---\n${SERVICE}---\n${SERVICE.replace('name: a', 'name: b')}...\n`)).toEqual([
      'Service shop/a',
      'Service shop/b',
    ]);
    expect(named(`---\n${SERVICE}---\n`.replaceAll('\n', '\r\n'))).toEqual(['Service shop/a']);
  });

  test('a namespaced object without a namespace is in default, and cluster-scoped kinds are in none', () => {
    expect(named('{apiVersion: v1, kind: Service, metadata: {name: a}}')).toEqual(['Service default/a']);
    expect(named('{apiVersion: v1, kind: Namespace, metadata: {name: a, namespace: b}}')).toEqual(['Namespace a']);
  });

  test('lists, typed lists whose elements have no kind, and lists in lists', () => {
    const item = { metadata: { name: 'a', namespace: 'shop' } };
    const service = { apiVersion: 'v1', kind: 'Service', ...item };
    expect(named(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [service] }))).toEqual(['Service shop/a']);
    expect(named(JSON.stringify({ apiVersion: 'v1', kind: 'PodList', items: [item] }))).toEqual(['Pod shop/a']);
    const inner = {
      apiVersion: 'v1',
      kind: 'List',
      items: [service, { apiVersion: 'v1', kind: 'ServiceList', items: [item] }],
    };
    expect(named(JSON.stringify({ apiVersion: 'v1', kind: 'List', items: [inner] }))).toEqual([
      'Service shop/a',
      'Service shop/a',
    ]);
  });

  test('what is no Kubernetes object is skipped and counted', () => {
    const { objects, skipped } = manifestsOf(
      'f.yaml',
      `replicaCount: 2\n---\njust text\n---\n- a\n---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources: []\n---\n${SERVICE}`,
    );
    expect(objects.length).toBe(1);
    expect(skipped).toBe(4);
  });

  test('anchors and merges', () => {
    const [object] = manifestsOf(
      'f.yaml',
      'apiVersion: v1\nkind: Service\nmetadata:\n  name: a\n  labels: &l {app: a}\nspec:\n  selector:\n    <<: *l\n    tier: b\n',
    ).objects;
    expect(object?.object['spec']).toEqual({ selector: { app: 'a', tier: 'b' } });
  });

  test('numbers as kubectl reads them, words as YAML 1.2 has them', () => {
    const [object] = manifestsOf(
      'f.yaml',
      'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 0755, b: 1_000, c: on, d: true, e: 1e3, f: 12e, g: "8"}\n',
    ).objects;
    expect(object?.object['data']).toEqual({ a: 493, b: 1000, c: 'on', d: true, e: 1000, f: '12e', g: '8' });
  });

  test('directories with all that is below them, but hidden folders; the links of a mounted ConfigMap; no circles', () => {
    written('dir/b/two.yml', SERVICE.replace('name: a', 'name: two'));
    written('dir/a.json', '{"apiVersion":"v1","kind":"Service","metadata":{"name":"one","namespace":"shop"}}');
    written('dir/.git/x.yaml', 'not: {');
    written('dir/readme.txt', 'not: {');
    written('dir/..2026/three.yaml', SERVICE.replace('name: a', 'name: three'));
    symlinkSync('..2026/three.yaml', join(folder, 'dir/three.yaml'));
    symlinkSync('..', join(folder, 'dir/b/circle'));
    const { objects, files } = readManifests([join(folder, 'dir')]);
    expect(objects.map(({ ref }) => ref.name)).toEqual(['one', 'two', 'three']);
    expect(files).toBe(3);
  });

  test('UTF-8 with a byte order mark, and the UTF-16 that PowerShell writes', () => {
    const expected = ['Service shop/a'];
    const ref = (file: string) => readManifests([file]).objects.map(object => spoken(object.ref));
    expect(ref(written('bom.yaml', `\ufeff${SERVICE}`))).toEqual(expected);
    expect(ref(written('utf16.yaml', Buffer.from(`\ufeff${SERVICE}`, 'utf16le')))).toEqual(expected);
  });
});

describe('positions', () => {
  const at = (source: string, index: number, pointer?: string) => {
    const object = manifestsOf('f.yaml', source).objects[index];
    return object === undefined ? '' : place(object.position(pointer));
  };
  const LISTED = [
    'apiVersion: v1',
    'items:',
    '- apiVersion: v1',
    '  kind: Service',
    '  metadata:',
    '    name: a',
    '- apiVersion: v1',
    '  kind: Service',
    '  metadata:',
    '    name: b',
    '    labels:',
    '      istio.io/use-waypoint: none',
    'kind: List',
    '',
  ].join('\n');

  test('an object in a file of many, and a field in it', () => {
    const source = `# first\n${SERVICE}---\n${SERVICE}spec:\n  ports:\n  - name: http\n    port: 80\n`;
    expect(at(source, 0)).toBe('f.yaml:2:1');
    expect(at(source, 1)).toBe('f.yaml:8:1');
    expect(at(source, 1, '/spec/ports/0')).toBe('f.yaml:15:5');
    expect(at(source, 1, '/spec/ports/0/port')).toBe('f.yaml:16:5');
  });

  test('the nearest parent where the field is not there', () => {
    expect(at(SERVICE, 0, '/metadata/labels/app')).toBe('f.yaml:3:1');
  });

  test('elements of a list, also where the list stands deeper', () => {
    expect(at(LISTED, 1)).toBe('f.yaml:7:3');
    expect(at(LISTED, 1, '/metadata/labels/istio.io~1use-waypoint')).toBe('f.yaml:12:7');
    expect(
      at(
        LISTED.replaceAll('\n- ', '\n  - ').replaceAll('\n  ', '\n    ').replaceAll('\n    - ', '\n  - '),
        1,
        '/metadata/name',
      ),
    ).toBe('f.yaml:10:7');
  });

  test('in YAML with anchors and collections on one line', () => {
    expect(
      at('apiVersion: v1\nkind: Service\nmetadata: &m\n  name: a\n  labels: {app: "b"}\n', 0, '/metadata/labels/app'),
    ).toBe('f.yaml:5:12');
    expect(
      at(
        `- &x 1\n---\n{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Service,\n  metadata: {name: a}}]}`,
        0,
        '/metadata/name',
      ),
    ).toBe('f.yaml:4:14');
  });

  test('in JSON, elements of a list among them', () => {
    const list = {
      apiVersion: 'v1',
      kind: 'List',
      items: ['a', 'b'].map(name => ({ apiVersion: 'v1', kind: 'Pod', metadata: { name, labels: { 'x"y': '}' } } })),
    };
    const source = JSON.stringify(list, null, 2);
    const lines = source.split('\n');
    expect(at(source, 1, '/metadata/name')).toBe(`f.yaml:${lines.findIndex(line => line.includes('"b"')) + 1}:9`);
    expect(at(source, 1, '/metadata/labels/x"y')).toBe(
      `f.yaml:${lines.findLastIndex(line => line.includes('x\\"y')) + 1}:11`,
    );
    expect(at(source, 1)).toBe(`f.yaml:${lines.lastIndexOf('    {') + 1}:5`);
  });
});

describe('long lists, which are taken apart as they are read', () => {
  const items = Array.from({ length: 6000 }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: `map-${index}`, namespace: 'shop', labels: { 'x"y': '}' } },
    data: { text: `a longer text, so that it is long enough: ${'-'.repeat(60)}\n` },
  }));
  const list = { apiVersion: 'v1', items, kind: 'List', metadata: { resourceVersion: '' } };

  test.each([
    ['JSON', JSON.stringify(list)],
    ['indented JSON', JSON.stringify(list, null, 2)],
    ['YAML as kubectl writes it', stringify(list, { indentSeq: false })],
    ['YAML with its elements deeper', stringify(list)],
    [
      'JSON whose elements have no kind',
      JSON.stringify({
        kind: 'ConfigMapList',
        apiVersion: 'v1',
        items: items.map(({ metadata, data }) => ({ metadata, data })),
      }),
    ],
  ])('%s', (_, source) => {
    expect(source.length).toBeGreaterThan(1_000_000);
    const { objects, skipped } = manifestsOf('f.yaml', source);
    expect(skipped).toBe(0);
    expect(objects.map(({ ref }) => spoken(ref))).toEqual(
      items.map(({ metadata }) => `ConfigMap shop/${metadata.name}`),
    );
    expect(objects[5999]?.object).toEqual(items[5999]);
    for (const index of [0, 1234, 5999]) {
      const { line = 0, column = 0 } = objects[index]?.position('/metadata/name') ?? {};
      const found = source.split('\n')[line - 1]?.slice(column - 1) ?? '';
      expect(found).toMatch(new RegExp(`^"?name"?: ?"?map-${index}\\b`));
    }
  });

  test('a mistake far down in one is told with its place', () => {
    const source = JSON.stringify(list, null, 1).replace('"map-4321",', '"map-4321",,');
    const line = source.split('\n').findIndex(text => text.includes(',,')) + 1;
    expect(() => manifestsOf('f.json', source)).toThrow(
      new RegExp(`^f\\.json:${line}:\\d+: no valid JSON from here on: ,$`),
    );
    const yaml = stringify(list, { indentSeq: false }).replace('name: map-4321\n', 'name: map-4321\n    name: again\n');
    expect(() => manifestsOf('f.yaml', yaml)).toThrow(/^f\.yaml:\d+:5: this key stands twice/);
  });
});

describe('bad input', () => {
  const mistake = (source: string, file = 'f.yaml') => {
    try {
      manifestsOf(file, source);
    } catch (error) {
      return error instanceof Error ? `${error.name}: ${error.message}` : '';
    }
    return 'read';
  };

  test.each([
    ['a key that stands twice', `${SERVICE}kind: Pod\n`, 'f.yaml', /^InputError: f\.yaml:6:1: this key stands twice/],
    ['a quote that does not end', 'a: b\n---\nmetadata: "x\n', 'f.yaml', /^InputError: f\.yaml:\d+:\d+: \S.{5,}$/],
    [
      'a template',
      '{{ if .Values.x }}\nkind: Pod\n{{ end }}\n',
      'f.yaml',
      /^InputError: f\.yaml:\d:\d+: \S.{5,} \(a template\? render it first: helm template\)$/,
    ],
    ['a tab', 'metadata:\n\tname: a\n', 'f.yaml', /^InputError: f\.yaml:2:1: \S.{5,}$/],
    [
      'JSON with a comma too many',
      '{\n "a": [1,]\n}',
      'f.json',
      /^InputError: f\.json:2:10: no valid JSON from here on: \]$/,
    ],
    ['JSON that ends early', '{\n "a": [1', 'f.json', /^InputError: f\.json:2:9: the JSON ends here/],
    [
      'aliases that multiply',
      `a: &a [1,1,1,1,1,1,1,1,1]\n${[...'bcdefgh'].map((key, i) => `${key}: &${key} [${Array(9).fill(`*${'abcdefg'[i]}`).join(',')}]`).join('\n')}\n`,
      'f.yaml',
      /^InputError: f\.yaml:1:1: aliases multiply/,
    ],
    [
      'an alias within its own anchor',
      'kind: Pod\nspec: &a { b: *a }\n',
      'f.yaml',
      /^InputError: f\.yaml:1:1: aliases multiply.* part of$/,
    ],
    [
      'flow lists nested 100,000 deep',
      `a: ${'['.repeat(100_000)}`,
      'f.yaml',
      /^InputError: f\.yaml:\d+:\d+: nested too deeply$/,
    ],
    [
      'an object nested 100,000 deep',
      `{"apiVersion":"kyverno.io/v1","kind":"ClusterPolicy","metadata":{"name":"a"},"spec":${'['.repeat(100_000)}${']'.repeat(100_000)}}`,
      'f.json',
      /^(InputError: f\.json:1:1: nested too deeply|read)$/,
    ],
  ])('%s: one line with the place', (_, source, file, expected) => {
    const said = mistake(source, file);
    expect(said).toMatch(expected);
    expect(said).not.toContain('\n');
  });

  test('a file that is not there, and one that is no text', () => {
    expect(() => readManifests([join(folder, 'none.yaml')])).toThrow(/none\.yaml: there is no such file/);
    expect(() => readManifests([written('binary.yaml', Buffer.from([0x61, 0xc3, 0x28]))])).toThrow(
      /binary\.yaml:1:1: this is no UTF-8 text/,
    );
  });
});

describe('what a state from files knows', () => {
  const ISTIOD =
    'apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: istiod, namespace: istio-system}\nspec: {template: {metadata: {labels: {app: istiod}}, spec: {containers: [{name: discovery, image: "istio/pilot:1.31.1"}]}}}\n';
  const NODE = '---\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n';

  test('without an istiod every absence is unknown', () => {
    const mesh = readMesh([written('plain.yaml', SERVICE)], NOTHING_DECLARED);
    expect(mesh.find('Service', 'shop', 'a')).toMatchObject({ name: 'a' });
    expect(mesh.find('Service', 'shop', 'b')).toBe('unknown');
  });

  test('with one it is complete, but for Namespaces, and for kinds that dumps leave out', () => {
    const mesh = readMesh([written('istiod.yaml', ISTIOD)], NOTHING_DECLARED);
    expect(mesh.find('Service', 'shop', 'b')).toBe('absent');
    expect(mesh.find('Namespace', '', 'shop')).toBe('unknown');
    expect(mesh.find('Node', '', 'x')).toBe('unknown');
    expect(readMesh([written('nodes.yaml', ISTIOD + NODE)], NOTHING_DECLARED).find('Node', '', 'x')).toBe('absent');
  });

  test('a declared control plane completes a state, and not manifests alone', () => {
    const plane = { revision: 'default', rootNamespace: 'istio-system', tags: [], env: {} };
    const mesh = readMesh([written('plain.yaml', SERVICE)], { controlPlanes: [plane] });
    expect(mesh.find('Service', 'shop', 'b')).toBe('absent');
    expect(knownFromFiles('Service', mesh, false)).toBe(false);
  });
});
