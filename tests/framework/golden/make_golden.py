"""Writes the *.pb files beside this script: programs as Google's protobuf writes them.

The messages are declared here once more, from the published description of the format and not from
proto/framework.proto, so that a wrong field number there is found. Run it with a Python that has the
package `protobuf`; the files are part of the tree, tests need neither.
"""
from pathlib import Path

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

# message: fields as "name number label type [default]"; labels r(equired) o(ptional) *(repeated).
ENUMS = {
    "AttrType": "INT FLOAT STRING INTS FLOATS STRINGS BOOLEAN BOOLEANS BLOCK LONG BLOCKS LONGS".split(),
    "Type": {"BOOL": 0, "INT16": 1, "INT32": 2, "INT64": 3, "FP16": 4, "FP32": 5, "FP64": 6, "SIZE_T": 19,
             "UINT8": 20, "INT8": 21, "BF16": 22, "LOD_TENSOR": 7, "SELECTED_ROWS": 8, "FEED_MINIBATCH": 9,
             "FETCH_LIST": 10, "STEP_SCOPES": 11, "LOD_RANK_TABLE": 12, "LOD_TENSOR_ARRAY": 13,
             "PLACE_LIST": 14, "READER": 15, "RAW": 17, "TUPLE": 18},
}
MESSAGES = {
    "Version": ["version 1 o int64"],
    "Attr": ["name 1 r string", "type 2 r AttrType", "i 3 o int32", "f 4 o float", "s 5 o bytes", "ints 6 * int32",
             "floats 7 * float", "strings 8 * string", "b 10 o bool", "bools 11 * bool", "block_idx 12 o int32",
             "l 13 o int64", "blocks_idx 14 * int32", "longs 15 * int64"],
    "Slot": ["parameter 1 r string", "arguments 2 * string"],
    "OpDesc": ["inputs 1 * Slot", "outputs 2 * Slot", "type 3 r string", "attrs 4 * Attr", "is_target 5 o bool"],
    "TensorDesc": ["data_type 1 r Type", "dims 2 * int64"],
    "LoDTensorDesc": ["tensor 1 r TensorDesc", "lod_level 2 o int32"],
    "ReaderDesc": ["lod_tensor 1 * LoDTensorDesc"],
    "Tuple": ["element_type 1 * Type"],
    "VarType": ["type 1 r Type", "selected_rows 2 o TensorDesc", "lod_tensor 3 o LoDTensorDesc",
                "tensor_array 4 o LoDTensorDesc", "reader 5 o ReaderDesc", "tuple 7 o Tuple"],
    "VarDesc": ["name 1 r string", "type 2 r VarType", "persistable 3 o bool"],
    "BlockDesc": ["idx 1 r int32", "parent_idx 2 r int32", "vars 3 * VarDesc", "ops 4 * OpDesc",
                  "forward_block_idx 5 o int32"],
    "ProgramDesc": ["blocks 1 * BlockDesc", "version 2 o Version", "random_seed 100 o int64"],
}


def classes():
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(name="golden.proto", package="golden", syntax="proto2")
    for name, values in ENUMS.items():
        enum = file.enum_type.add(name=name)
        items = values.items() if isinstance(values, dict) else ((v, i) for i, v in enumerate(values))
        for value, number in items:
            enum.value.add(name=f"{name}_{value}", number=number)
    labels = {"r": field.LABEL_REQUIRED, "o": field.LABEL_OPTIONAL, "*": field.LABEL_REPEATED}
    for name, rows in MESSAGES.items():
        message = file.message_type.add(name=name)
        for row in rows:
            field_name, number, label, kind = row.split()
            added = message.field.add(name=field_name, number=int(number), label=labels[label])
            if kind in ENUMS or kind in MESSAGES:
                added.type = field.TYPE_ENUM if kind in ENUMS else field.TYPE_MESSAGE
                added.type_name = f".golden.{kind}"
            else:
                added.type = getattr(field, f"TYPE_{kind.upper()}")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"golden.{name}")) for name in MESSAGES}


ProgramDesc = classes()["ProgramDesc"]
ATTR_TYPE = {name: i for i, name in enumerate(ENUMS["AttrType"])}
TYPE = ENUMS["Type"]


def add_var(block, name, dims=None, kind="LOD_TENSOR", dtype="FP32", lod_level=None, persistable=None):
    var = block.vars.add(name=name)
    var.type.type = TYPE[kind]
    if dims is not None:
        part = {"LOD_TENSOR": var.type.lod_tensor, "LOD_TENSOR_ARRAY": var.type.tensor_array}.get(kind)
        tensor = part.tensor if part is not None else var.type.selected_rows
        tensor.data_type = TYPE[dtype]
        tensor.dims.extend(dims)
        if lod_level is not None:
            part.lod_level = lod_level
    if persistable is not None:
        var.persistable = persistable
    return var


ATTR_FIELD = {"INT": "i", "FLOAT": "f", "STRING": "s", "BOOLEAN": "b", "BLOCK": "block_idx", "LONG": "l",
              "INTS": "ints", "FLOATS": "floats", "STRINGS": "strings", "BOOLEANS": "bools", "BLOCKS": "blocks_idx",
              "LONGS": "longs"}


def add_op(block, type, inputs, outputs, /, **attrs):
    op = block.ops.add(type=type)
    for slots, given in ((op.inputs, inputs), (op.outputs, outputs)):
        for name, args in given.items():
            slots.add(parameter=name, arguments=args)
    for name, (kind, value) in attrs.items():
        attr = op.attrs.add(name=name, type=ATTR_TYPE[kind])
        if kind.endswith("S"):
            getattr(attr, ATTR_FIELD[kind]).extend(value)
        else:
            setattr(attr, ATTR_FIELD[kind], value)
    return op


def inference_model():
    """What Fluid saves for a linear regression."""
    program = ProgramDesc()
    program.version.version = 0
    block = program.blocks.add(idx=0, parent_idx=-1)
    add_var(block, "feed", kind="FEED_MINIBATCH", persistable=True)
    add_var(block, "fetch", kind="FETCH_LIST", persistable=True)
    add_var(block, "x", [-1, 13], lod_level=0, persistable=False)
    add_var(block, "fc_0.w_0", [13, 1], lod_level=0, persistable=True)
    add_var(block, "fc_0.b_0", [1], lod_level=0, persistable=True)
    add_var(block, "fc_0.tmp_0", [-1, 1], lod_level=0, persistable=False)
    add_var(block, "fc_0.tmp_1", [-1, 1], lod_level=0, persistable=False)
    role = dict(op_role=("INT", 0), op_role_var=("STRINGS", []), op_namescope=("STRING", b"/"))
    add_op(block, "feed", {"X": ["feed"]}, {"Out": ["x"]}, col=("INT", 0), **role)
    add_op(block, "mul", {"X": ["x"], "Y": ["fc_0.w_0"]}, {"Out": ["fc_0.tmp_0"]},
           x_num_col_dims=("INT", 1), y_num_col_dims=("INT", 1), **role)
    add_op(block, "elementwise_add", {"X": ["fc_0.tmp_0"], "Y": ["fc_0.b_0"]}, {"Out": ["fc_0.tmp_1"]},
           axis=("INT", 1), **role)
    add_op(block, "fetch", {"X": ["fc_0.tmp_1"]}, {"Out": ["fetch"]}, col=("INT", 0), **role)
    return program


def every_field():
    """Every field, kind and type, and the optional ones both absent and present with their default."""
    program = ProgramDesc(random_seed=-7)
    program.version.SetInParent()
    block = program.blocks.add(idx=0, parent_idx=-1, forward_block_idx=-1)
    for dtype in ("BOOL", "INT16", "INT32", "INT64", "FP16", "FP32", "FP64", "SIZE_T", "UINT8", "INT8", "BF16"):
        add_var(block, f"of_{dtype}", [2, 3], dtype=dtype)
    add_var(block, "scalar", [])
    add_var(block, "no type yet", persistable=False)
    add_var(block, "nine", [1, 2, 3, 4, 5, 6, 7, 8, -1], lod_level=2)
    add_var(block, "large", [2**40, 0])
    add_var(block, "rows", [1000, 8], kind="SELECTED_ROWS", persistable=True)
    add_var(block, "array", [-1, 4], kind="LOD_TENSOR_ARRAY", lod_level=1)
    for kind in ("STEP_SCOPES", "LOD_RANK_TABLE", "PLACE_LIST", "RAW", "READER", "TUPLE", "FEED_MINIBATCH"):
        add_var(block, f"kind_{kind}", kind=kind)
    changed = add_var(block, "was a tensor", [5, 5], kind="SELECTED_ROWS")
    changed.type.lod_tensor.tensor.data_type = TYPE["FP64"]
    changed.type.lod_tensor.lod_level = 0
    reader = add_var(block, "reader", kind="READER", persistable=True)
    column = reader.type.reader.lod_tensor.add(lod_level=1)
    column.tensor.data_type = TYPE["INT64"]
    column.tensor.dims.extend([-1, 1])
    tuple_ = add_var(block, "tuple", kind="TUPLE")
    tuple_.type.tuple.element_type.extend([TYPE["INT64"], TYPE["FP32"]])
    add_op(block, "every_attribute", {"Empty": [], "One": ["scalar"], "Two": ["nine", "@EMPTY@"]}, {"Out": ["rows"]},
           int=("INT", -1), float=("FLOAT", 0.1), string=("STRING", "caf\u00e9".encode()), ints=("INTS", [0, -2**31, 2**31 - 1]),
           floats=("FLOATS", [1e-30, float("inf"), -0.0]), strings=("STRINGS", ["", "a", "b c"]),
           true=("BOOLEAN", True), false=("BOOLEAN", False), bools=("BOOLEANS", [True, False, True]),
           block=("BLOCK", 1), long=("LONG", -2**63), blocks=("BLOCKS", [2, 1]), longs=("LONGS", [2**63 - 1, 0]),
           binary=("STRING", b"\x00\xff\x00"), no_ints=("INTS", []), no_strings=("STRINGS", []),
           no_string=("STRING", b""))
    add_op(block, "target", {}, {}).is_target = True
    add_op(block, "no_target", {}, {}).is_target = False
    inner = program.blocks.add(idx=1, parent_idx=0)
    add_var(inner, "rows", [1])
    add_op(inner, "while", {"X": ["rows"]}, {}, sub_block=("BLOCK", 2))
    program.blocks.add(idx=2, parent_idx=1, forward_block_idx=1)
    return program


def main():
    for make in (inference_model, every_field):
        path = Path(__file__).with_name(f"{make.__name__}.pb")
        path.write_bytes(make().SerializeToString(deterministic=True))
        print(path.name, path.stat().st_size)
    smallest = ProgramDesc()
    smallest.blocks.add(idx=0, parent_idx=-1)
    Path(__file__).with_name("smallest.pb").write_bytes(smallest.SerializeToString())


if __name__ == "__main__":
    main()
