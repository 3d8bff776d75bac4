# How parts and programs are made; included by CMakeLists.txt.

# tn_static(name source... [LINK library...]): a part, as a static library. What it links, whoever
# links it links as well.
function(tn_static name)
    cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
    add_library(${name} STATIC ${arg_UNPARSED_ARGUMENTS})
    target_link_libraries(${name} PUBLIC ${arg_LINK} PRIVATE tn_flags tn_instrument)
endfunction()

# tn_program(target path source... [LINK library...]): a program at this path of the build.
function(tn_program target path)
    cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
    get_filename_component(name ${path} NAME)
    get_filename_component(folder ${CMAKE_BINARY_DIR}/${path} DIRECTORY)
    add_executable(${target} ${arg_UNPARSED_ARGUMENTS})
    set_target_properties(${target} PROPERTIES
        OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${folder})
    target_link_libraries(${target} PRIVATE tn_flags tn_instrument ${arg_LINK})
endfunction()

# tn_engine(name [FLAGS flag...] [LINK library...]): the store of an engine, from its folder, for
# which the registry has the symbol TENURE_NAME; what a user of libtenure.a links with it.
function(tn_engine name)
    cmake_parse_arguments(arg "" "" "FLAGS;LINK" ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS src/stores/${name}/*.c)
    string(TOUPPER TENURE_${name} symbol)
    # What engines stand on is in tn_stores, which knows them by name.
    tn_static(tn_store_${name} ${sources} LINK tn_stores ${arg_LINK})
    target_include_directories(tn_store_${name} PRIVATE ${CMAKE_BINARY_DIR}/generated)
    target_link_libraries(tn_stores PUBLIC tn_store_${name})
    target_compile_definitions(tn_stores PRIVATE ${symbol}=1)
    tn_in_library(tn_store_${name} FLAGS ${arg_FLAGS} LINK ${arg_LINK})
endfunction()

# tn_in_library(target [FLAGS flag...] [LINK library...]): its objects are part of libtenure.
function(tn_in_library target)
    cmake_parse_arguments(arg "" "" "FLAGS;LINK" ${ARGN})
    list(FILTER arg_LINK EXCLUDE REGEX "^tn_")
    list(JOIN arg_FLAGS " " flags)
    set_property(GLOBAL APPEND PROPERTY tn_objects $<TARGET_OBJECTS:${target}>)
    set_property(GLOBAL APPEND PROPERTY tn_libraries ${arg_LINK})
    if(flags)
        set_property(GLOBAL APPEND_STRING PROPERTY tn_flags " ${flags}")
    endif()
endfunction()

# tn_unused(name source): the one of two files that this build does not use must compile, too.
function(tn_unused name source)
    add_library(${name} OBJECT ${source})
    target_link_libraries(${name} PRIVATE tn_flags)
endfunction()

# tn_embed(header file...): text files as C strings, each named tn_STEM.
function(tn_embed header)
    set(content "/* Made by CMake from the files that are named below. */\n")
    foreach(path IN LISTS ARGN)
        get_filename_component(stem ${path} NAME_WE)
        file(READ ${path} text)
        string(REPLACE "\\" "\\\\" text "${text}")
        string(REPLACE "\"" "\\\"" text "${text}")
        string(REPLACE "\n" "\\n\"\n    \"" text "${text}")
        string(APPEND content "\n/* ${path} */\n"
            "static const char tn_${stem}[] =\n    \"${text}\";\n")
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
    endforeach()
    file(GENERATE OUTPUT ${CMAKE_BINARY_DIR}/generated/${header} CONTENT "${content}")
endfunction()
